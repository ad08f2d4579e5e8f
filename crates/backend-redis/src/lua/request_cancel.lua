-- needs: status, cancels
local found = read_fields(key('wf:run', call.run), 'status', 'quarantined_at')
if not found.status then
  return missing()
end
if final[found.status] then
  return answer({ outcome = 'already_ended' })
end
request_cancel(call.run, call.event, found.quarantined_at)
return answer({ outcome = 'posted' })
