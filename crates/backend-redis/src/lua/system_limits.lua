local found = redis.call('HMGET', key('sys:limits'), 'runs_max', 'key_retention_ms', 'revision')
return { 'ok', found[1], found[2], found[3] }
