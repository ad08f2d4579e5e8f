-- needs: quotas
-- Saves a document as the next version of its workflow, the current one from now on.
local id = call.id
local hash = key('wf:def', id)
local before = read_fields(hash, 'version', 'saved_at', 'request')
if is_repeat and before.request == request then
  return answer(before.version)
end
if not before.version then
  local most = quota('workflows_max', limits.workflows_default)
  if tonumber(redis.call('HGET', key('wf:tenant'), 'workflows') or '0') >= most then
    return quota_reached('workflows', most)
  end
  redis.call('HINCRBY', key('wf:tenant'), 'workflows', 1)
else
  local most = quota('workflow_versions_max', limits.versions_default)
  if tonumber(before.version) >= most then
    return quota_reached('workflow_versions', most)
  end
end
-- A workflow that is saved again after its deletion continues counting: old runs keep their version.
local version = integer(tonumber(before.version or '0') + 1)
redis.call('HSET', key('wf:def', id .. ':' .. version), 'document', call.document, 'created_at', integer(now))
if before.saved_at then
  redis.call('ZREM', key('wf:defs'), sortable(tonumber(before.saved_at)) .. '/' .. id)
end
redis.call('ZADD', key('wf:defs'), 0, sortable(now) .. '/' .. id)
redis.call('HSET', hash, 'version', version, 'current', version, 'saved_at', integer(now), 'request', request)
return answer(version)
