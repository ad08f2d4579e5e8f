-- What every process has counted of a rollout.
return answer(redis.call('HGETALL', key('sys:contention:figures', call.rollout)))
