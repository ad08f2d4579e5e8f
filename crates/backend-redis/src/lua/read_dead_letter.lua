return answer({ dead_letter = redis.call('HGET', key('wf:dead_letters'), call.job) or nil })
