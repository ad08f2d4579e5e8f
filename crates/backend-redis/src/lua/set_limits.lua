-- needs: written_limits, groups, grants
-- Replaces the limits of a tenant, or of the system. Each change has a number. A raised cap is in force for the tenant's
-- runs that wait, too.
local hash = limits_key(call.scope)
local before = read_fields(hash, 'revision', 'limits_request')
if is_repeat and before.limits_request == request then
  return answer(before.revision)
end
local revision = tonumber(before.revision or '0') + 1
redis.call('HDEL', hash, 'runs_max', 'key_retention_ms', unpack(queue_names))
if call.runs_max then
  redis.call('HSET', hash, 'runs_max', integer(call.runs_max))
end
if call.key_retention then
  redis.call('HSET', hash, 'key_retention_ms', integer(call.key_retention))
end
for _, name in ipairs(queue_names) do
  if call[name] then
    redis.call('HSET', hash, name, type(call[name]) == 'number' and integer(call[name]) or call[name])
  end
end
if not call.keeps_quotas then
  redis.call('HDEL', hash, unpack(quota_names))
  for _, name in ipairs(quota_names) do
    if call[name] then
      redis.call('HSET', hash, name, integer(call[name]))
    end
  end
end
redis.call('HSET', hash, 'revision', integer(revision), 'limits_request', request)
if call.scope ~= 'system' then
  grant_slots({ tenant_runs })
  write_groups()
end
return answer(revision)
