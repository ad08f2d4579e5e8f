-- Keeps a document as the next version of its workflow, the current one from now on.
local id, document = argument(), argument()
local hash = key('wf:def', id)
local before = redis.call('HMGET', hash, 'version', 'saved_at', 'request')
if is_repeat and before[3] == request then
  return { 'ok', before[1] }
end
-- A workflow that comes back after its deletion goes on counting: old runs keep their version.
local version = integer(tonumber(before[1] or '0') + 1)
redis.call('HSET', key('wf:def', id .. ':' .. version), 'document', document, 'created_at', integer(now))
if before[2] then
  redis.call('ZREM', key('wf:defs'), sortable(tonumber(before[2])) .. '/' .. id)
end
redis.call('ZADD', key('wf:defs'), 0, sortable(now) .. '/' .. id)
redis.call('HSET', hash, 'version', version, 'current', version, 'saved_at', integer(now), 'request', request)
return { 'ok', version }
