-- Replaces what one process has counted of a rollout.
local hash = key('sys:contention:figures', call.rollout)
if redis.call('HEXISTS', hash, call.instance) == 0 and redis.call('HLEN', hash) >= call.members_max then
  return answer()
end
redis.call('HSET', hash, call.instance, call.figures)
return answer({ is_saved = true })
