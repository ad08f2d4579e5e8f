return answer(redis.call('HVALS', key('sys:keys')))
