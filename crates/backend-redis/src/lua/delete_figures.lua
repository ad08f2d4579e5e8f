redis.call('DEL', key('sys:contention:figures', call.rollout))
return answer()
