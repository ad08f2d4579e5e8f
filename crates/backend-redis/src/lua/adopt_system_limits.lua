-- needs: remembered, limit_change
-- Copies the named limits of the system to the tenant, and grants what they and the system's cap let start.
local done = answered_before()
if done then
  return done
end
local changed_limits = {}

-- Removes the copies of those that the system has no more.
local function remove_others(kept)
  for _, name in ipairs(system_limits()) do
    if not kept[name] then
      redis.call('ZREM', key('wf:limits'), name)
      redis.call('UNLINK', key('wf:limit', name))
      changed_limits[#changed_limits + 1] = name
    end
  end
end

local function copy(limit)
  local hash, revision, saved_at = key('wf:limit', limit.name), integer(limit.revision), integer(limit.saved_at)
  local before = read_fields(hash, 'document', 'revision', 'saved_at', 'paused')
  if before.document == limit.document and before.revision == revision and before.saved_at == saved_at
    and before.paused == limit.paused then
    return
  end
  redis.call('ZADD', key('wf:limits'), 0, limit.name)
  write_limit(hash, limit, revision, saved_at)
  if limit.paused then
    redis.call('HSET', hash, 'paused', limit.paused)
  else
    redis.call('HDEL', hash, 'paused')
  end
  changed_limits[#changed_limits + 1] = limit.name
end

local version = tonumber(redis.call('HGET', key('wf:tenant'), 'system_revision') or '0')
local is_newer = call.version > version
if is_newer then
  version = call.version
  local kept = {}
  for _, limit in ipairs(call.limits) do
    kept[limit.name] = true
  end
  remove_others(kept)
  for _, limit in ipairs(call.limits) do
    copy(limit)
  end
  redis.call('HSET', key('wf:tenant'), 'system_revision', integer(version))
  if changed_limits[1] then
    -- Starts by the limits as they were are refused.
    next_limits_revision()
  end
end
for _, name in ipairs(changed_limits) do
  grant_all(name)
end
grant_slots({ tenant_runs })
write_groups()
local reply = answer({ version = version, granted = granted })
-- Most often there is nothing to do, and a repeated call finds the same.
if is_newer or granted > 0 then
  return remember(reply)
end
return reply
