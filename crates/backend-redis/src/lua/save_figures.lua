-- Replaces what one process has counted of a rollout.
local hash = key('sys:contention:figures', call.rollout)
if redis.call('HEXISTS', hash, call.instance) == 0 and redis.call('HLEN', hash) >= limits.members_max then
  return conflict(integer(limits.members_max) .. ' processes have counted the rollout ' .. call.rollout .. ' already')
end
redis.call('HSET', hash, call.instance, call.figures)
return answer()
