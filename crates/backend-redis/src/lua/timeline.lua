-- What happened to a run after event number `after`, oldest first.
local run, after, limit = argument(), number(), number()
if redis.call('EXISTS', key('wf:run', run)) == 0 then
  return { 'missing' }
end
if limit == 0 then
  return { 'ok', {} }
end
return { 'ok', redis.call('LRANGE', key('wf:timeline', run), integer(after), integer(after + limit - 1)) }
