-- Replaces what is written for a tenant, or for the system. Each change has a number.
local hash = key(argument())
local runs_max, retention = argument(), argument()
local before = redis.call('HMGET', hash, 'revision', 'limits_request')
if is_repeat and before[2] == request then
  return { 'ok', before[1] }
end
local revision = tonumber(before[1] or '0') + 1
redis.call('HDEL', hash, 'runs_max', 'key_retention_ms')
if runs_max ~= '' then
  redis.call('HSET', hash, 'runs_max', runs_max)
end
if retention ~= '' then
  redis.call('HSET', hash, 'key_retention_ms', retention)
end
redis.call('HSET', hash, 'revision', integer(revision), 'limits_request', request)
return { 'ok', integer(revision) }
