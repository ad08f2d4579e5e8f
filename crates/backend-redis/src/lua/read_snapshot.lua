return answer({ snapshot = redis.call('GET', call.name) })
