-- needs: status, inbox, run_lock
local hash = key('wf:run', call.run)
local found = read_fields(hash, 'status', 'quarantined_at', 'lease')
if not found.status then
  return missing()
end
if final[found.status] then
  return answer({ outcome = 'already_ended' })
end
if found.quarantined_at then
  local lock = read_lock(call.run)
  -- An instance that holds it is cancelling it right now.
  if not lock or lock.expires_at <= now then
    redis.call('HSET', hash, 'cancel', call.event, 'lease', '0')
    redis.call('ZADD', key('wf:ready'), 0, call.run)
  end
  return answer({ outcome = 'posted' })
end
-- One request that waits is enough.
local last = redis.call('LINDEX', key('wf:inbox', call.run), -1)
if not last or string.sub(last, 1, 10) ~= '{"cancel":' then
  post(call.run, call.event)
end
return answer({ outcome = 'posted' })
