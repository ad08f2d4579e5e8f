local run, event = argument(), argument()
local status = redis.call('HGET', key('wf:run', run), 'status')
if not status then
  return { 'missing' }
end
if final[status] then
  return { 'ok', 'ended' }
end
post(run, event)
return { 'ok', 'posted' }
