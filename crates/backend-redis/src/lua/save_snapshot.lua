-- needs: lock_record, snapshot
-- Saves which workers are online, for the live holder of the writer's lock under its fence.
local fence = call.fence
return decide(function(lock)
  local token = redis.call('ZRANGEBYSCORE', lock.order, integer(fence), integer(fence))[1]
  if lock.fence ~= fence or not live_grant(lock, token) then
    return fenced(lock.fence)
  end
  redis.call('SET', snapshot_key(), call.snapshot)
  return answer()
end)
