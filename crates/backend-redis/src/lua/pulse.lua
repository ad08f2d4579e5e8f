-- Once a second from every process: it lives, and it hears who does not, what the system's limits are, and how many
-- tenants there are. These keys belong to no tenant and share one hash tag of their own.
local instance, gone_after = argument(), number()
redis.call('ZADD', key('sys:instances'), integer(now), instance)
redis.call('ZREMRANGEBYSCORE', key('sys:instances'), '-inf', integer(now - 3600000))
local gone = redis.call('ZRANGEBYSCORE', key('sys:instances'), '-inf', integer(now - gone_after), 'LIMIT', 0, 256)
local limits = redis.call('HMGET', key('sys:limits'), 'runs_max', 'key_retention_ms', 'revision')
return { 'ok', integer(now), gone, limits, integer(redis.call('ZCARD', key('sys:tenants'))) }
