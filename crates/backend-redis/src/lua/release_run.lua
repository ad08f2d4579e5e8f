-- needs: run_lock
-- Releases a run. Another instance's lease is left alone; a run that is already released is fine.
local hash = key('wf:run', call.run)
local found = read_fields(hash, 'lease', 'quarantined_at')
if tonumber(found.lease or '0') == call.fence then
  if found.quarantined_at then
    -- A request to cancel it is still to be met.
    redis.call('HSET', hash, 'lease', '0')
  else
    redis.call('HDEL', hash, 'lease', 'tries')
  end
  release_lock(call.run, call.fence)
end
return answer()
