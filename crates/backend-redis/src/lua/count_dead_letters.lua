-- How many dead letters the tenant has, and how many have made room.
return answer({ kept = redis.call('ZCARD', key('wf:dead_letters:index')),
  dropped = redis.call('HGET', key('wf:tenant'), 'letters_dropped') or 0 })
