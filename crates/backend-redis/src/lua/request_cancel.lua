-- needs: status, inbox
local status = redis.call('HGET', key('wf:run', call.run), 'status')
if not status then
  return missing()
end
if final[status] then
  return answer({ outcome = 'already_ended' })
end
-- One request that waits is enough.
local last = redis.call('LINDEX', key('wf:inbox', call.run), -1)
if not last or string.sub(last, 1, 10) ~= '{"cancel":' then
  post(call.run, call.event)
end
return answer({ outcome = 'posted' })
