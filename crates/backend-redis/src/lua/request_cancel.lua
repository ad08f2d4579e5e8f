-- needs: status, inbox
local status = redis.call('HGET', key('wf:run', call.run), 'status')
if not status then
  return missing()
end
if final[status] then
  return answer({ outcome = 'already_ended' })
end
post(call.run, call.event)
return answer({ outcome = 'posted' })
