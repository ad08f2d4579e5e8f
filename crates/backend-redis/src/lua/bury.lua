-- Keeps a dead letter. One job has one: the last.
local job, letter = argument(), argument()
redis.call('HSET', key('wf:dead_letters'), job, letter)
redis.call('ZADD', key('wf:dead_letters:index'), 0, job)
return { 'ok' }
