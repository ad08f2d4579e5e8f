-- Refuses new starts. The versions stay: runs that have begun go on with theirs.
local id = argument()
local hash = key('wf:def', id)
local found = redis.call('HMGET', hash, 'current', 'saved_at', 'deletion_request')
if is_repeat and found[3] == request then
  return { 'ok' }
end
if not found[1] then
  return { 'missing' }
end
redis.call('ZREM', key('wf:defs'), sortable(tonumber(found[2])) .. '/' .. id)
redis.call('HDEL', hash, 'current')
redis.call('HSET', hash, 'deletion_request', request)
return { 'ok' }
