-- needs: written_limits
-- Once a second from every process: it is alive, how it keeps time, and it learns which processes are gone and what the
-- system's limits are. These keys belong to no tenant and share one hash tag of their own.
local seen, rhythms = key('sys:instances'), key('sys:instances:rhythms')
redis.call('ZADD', seen, integer(now), call.instance)
redis.call('HSET', rhythms, call.instance, call.rhythm)
for _, forgotten in ipairs(redis.call('ZRANGEBYSCORE', seen, '-inf', integer(now - 3600000), 'LIMIT', 0, 256)) do
  redis.call('ZREM', seen, forgotten)
  redis.call('HDEL', rhythms, forgotten)
end
local learned = read_written_limits('system')
learned.now = now
learned.gone = redis.call('ZRANGEBYSCORE', seen, '-inf', integer(now - limits.gone_after), 'LIMIT', 0, 256)
return answer(learned)
