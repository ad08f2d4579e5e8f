-- needs: remembered, groups, grants
-- Changes of named limits: each has a number of the tenant's, and grants what it lets start.
local rule_names = { 'runs_max', 'interval', 'ahead', 'on_full', 'queued_max', 'wait_max', 'order', 'quiet',
  'delay_max', 'weights' }

-- The names of those that the tenant has from the system.
local function system_limits()
  return redis.call('ZRANGE', key('wf:limits'), '[system.', '(system/', 'BYLEX')
end

local function write_limit(hash, limit, revision, saved_at)
  redis.call('HDEL', hash, unpack(rule_names))
  redis.call('HSET', hash, 'document', limit.document, 'revision', revision, 'saved_at', saved_at)
  for _, name in ipairs(rule_names) do
    local value = limit.rule[name]
    if value then
      redis.call('HSET', hash, name, type(value) == 'number' and integer(value) or value)
    end
  end
end

local function limits_revision()
  return tonumber(redis.call('HGET', key('wf:tenant'), 'limits_revision') or '0')
end

local function next_limits_revision()
  return redis.call('HINCRBY', key('wf:tenant'), 'limits_revision', 1)
end

-- Not done: it has changed since it was read.
local function changed(revision)
  return answer({ outcome = 'changed', revision = revision or 0 })
end

local function change_done(revision)
  grant_all(call.name)
  write_groups()
  return remember(answer({ outcome = 'done', revision = revision, granted = granted }))
end
