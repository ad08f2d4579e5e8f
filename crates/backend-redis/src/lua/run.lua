local run = argument()
local found = redis.call('HMGET', key('wf:run', run), 'start', 'head')
if not found[1] then
  return { 'missing' }
end
return { 'ok', found[1], found[2], redis.call('HGETALL', key('wf:steps', run)) }
