-- Refuses new starts. The versions stay: runs that have begun continue with theirs.
local hash = key('wf:def', call.id)
local found = read_fields(hash, 'current', 'saved_at', 'deletion_request')
if is_repeat and found.deletion_request == request then
  return answer()
end
if not found.current then
  return missing()
end
redis.call('ZREM', key('wf:defs'), sortable(tonumber(found.saved_at)) .. '/' .. call.id)
redis.call('HDEL', hash, 'current')
redis.call('HSET', hash, 'deletion_request', request)
return answer()
