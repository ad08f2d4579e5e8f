-- Once a second from every process: it lives, how it keeps time, and it hears who does not live, what the system's limits
-- are, and how many tenants there are. These keys belong to no tenant and share one hash tag of their own.
local instance, gone_after, rhythm = argument(), number(), argument()
local seen, rhythms = key('sys:instances'), key('sys:instances:rhythms')
redis.call('ZADD', seen, integer(now), instance)
redis.call('HSET', rhythms, instance, rhythm)
for _, forgotten in ipairs(redis.call('ZRANGEBYSCORE', seen, '-inf', integer(now - 3600000), 'LIMIT', 0, 256)) do
  redis.call('ZREM', seen, forgotten)
  redis.call('HDEL', rhythms, forgotten)
end
local gone = redis.call('ZRANGEBYSCORE', seen, '-inf', integer(now - gone_after), 'LIMIT', 0, 256)
local limits = redis.call('HMGET', key('sys:limits'), 'runs_max', 'key_retention_ms', 'revision')
return { 'ok', integer(now), gone, limits, integer(redis.call('ZCARD', key('sys:tenants'))) }
