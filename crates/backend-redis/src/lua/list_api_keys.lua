return answer({ keys = redis.call('HVALS', key('sys:keys')) })
