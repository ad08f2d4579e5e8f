return answer(redis.call('HGET', key('wf:dead_letters'), call.job))
