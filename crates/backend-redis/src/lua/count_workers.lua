return answer(redis.call('ZCARD', key('wf:workers')))
