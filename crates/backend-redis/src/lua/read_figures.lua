-- What every process has counted of a rollout.
return answer({ figures = redis.call('HGETALL', key('sys:contention:figures', call.rollout)) })
