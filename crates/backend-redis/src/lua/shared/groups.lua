-- needs: claims, usage, slot_flow
-- Groups of limits: how many runs are live in them and wait for them, and whether one more may start.
--
-- The numbers are the sizes of `wf:limit:live` and `wf:limit:queue`, so that they cannot drift. What else is known of a
-- group stands in its hash, which goes when nothing happens in the group any more. A decision reads each group once.
local groups, limit_rules = {}, {}

-- For the next decision of the same call.
local function forget_groups()
  groups, limit_rules = {}, {}
end

-- What a limit demands of each of its groups. One that was deleted demands nothing.
local function read_limit_rule(limit)
  if not limit_rules[limit] then
    local found = read_fields(key('wf:limit', limit), 'runs_max', 'interval', 'ahead', 'on_full', 'queued_max', 'wait_max',
      'order', 'quiet', 'delay_max', 'paused', 'weights')
    limit_rules[limit] = {
      runs_max = tonumber(found.runs_max),
      interval = tonumber(found.interval),
      ahead = tonumber(found.ahead),
      on_full = found.on_full or 'reject',
      queued_max = tonumber(found.queued_max or limits.queued_default),
      wait_max = tonumber(found.wait_max or limits.queue_wait_default),
      order = found.order or 'fifo',
      quiet = tonumber(found.quiet),
      delay_max = tonumber(found.delay_max),
      is_paused = found.paused ~= nil,
      weights = found.weights,
    }
  end
  return limit_rules[limit]
end

-- The group of the tenant's own slots. Its hash is the tenant's, where a release writes how fast slots come free.
local function tenant_group(found)
  local queue = found.queue
  return {
    claim = tenant_runs,
    rule = { runs_max = found.usage.runs_max, on_full = queue.on_full, queued_max = queue.queued_max,
      wait_max = queue.wait_max, order = queue.order, is_paused = found.is_paused },
    live = found.usage.runs_active,
    queued = found.has_queues and redis.call('ZCARD', key('wf:limit:queue', tenant_runs)) or 0,
    freed = 0,
    slot_flow = found.slot_flow,
    changes = {},
  }
end

local function load_group(claim)
  local group = groups[claim]
  if group then
    return group
  end
  if claim == tenant_runs then
    group = tenant_group(read_usage())
  else
    local found = read_fields(key('wf:limit:group', claim), 'paced_until', 'replacing', 'flow_since',
      'flow_releases', 'flow_time', 'virtual_time')
    group = {
      claim = claim,
      rule = read_limit_rule(limit_of(claim)),
      live = redis.call('ZCARD', key('wf:limit:live', claim)),
      queued = redis.call('ZCARD', key('wf:limit:queue', claim)),
      freed = 0,
      paced_until = tonumber(found.paced_until),
      replacing = found.replacing,
      -- It has, or had, a fair queue.
      virtual_time = tonumber(found.virtual_time),
      slot_flow = flow_in(found),
      changes = {},
    }
    group.is_listed = group.live > 0 or group.queued > 0 or next(found) ~= nil
  end
  groups[claim] = group
  return group
end

-- Why no run can start in a group with this number of live runs, and if it is for the rate, when the next one can.
local function fullness(group, live)
  local rule = group.rule
  if rule.is_paused then
    return 'paused'
  end
  if rule.runs_max and live >= rule.runs_max then
    return 'slots'
  end
  if rule.interval and group.paced_until then
    local next_at = math.ceil((group.paced_until - rule.ahead) / 1000)
    if now < next_at then
      return 'rate', next_at
    end
  end
  return nil
end

-- The same for a newcomer: those that wait are not overtaken.
local function fullness_for_newcomer(group, live)
  local reason, next_at = fullness(group, live)
  if not reason and group.queued > 0 then
    return 'others'
  end
  return reason, next_at
end

-- Lists a group before anything else is written of it.
local function list_group(group)
  if not group.is_listed and group.claim ~= tenant_runs then
    redis.call('ZADD', key('wf:limit:groups', limit_of(group.claim)), 0, escaped_group_of(group.claim))
    group.is_listed = true
  end
end

local function change_flow(group)
  local flow, changes = group.slot_flow, group.changes
  changes.flow_since, changes.flow_releases, changes.flow_time = flow.since, flow.releases, flow.time
end

-- One more run has a slot of the group.
local function acquire_in(group)
  if group.live == 0 then
    group.slot_flow.since = integer(now)
    change_flow(group)
  end
  group.live = group.live + 1
  if group.rule.interval then
    group.paced_until = math.max(group.paced_until or 0, now * 1000) + group.rule.interval
    group.changes.paced_until = integer(group.paced_until)
  end
end

-- A run has released its slot of the group.
local function release_in(group)
  group.live = math.max(group.live - 1, 0)
  group.slot_flow = flow_after(group.slot_flow)
  change_flow(group)
end

-- The run that waits in the group for the end of one that it replaces; false: there is none.
local function set_replacing(group, run)
  group.replacing = run or nil
  group.changes.replacing = run
end

-- Grants the slots of a group then, or of what else is named: see `grants`.
local function set_limit_timer(at, limit, what)
  local member = sortable(at) .. '/' .. limit .. '/' .. what
  redis.call('ZADD', key('wf:limit:timers'), integer(at), member)
end

-- Grants the slots of a group then, unless they are granted before.
local function grant_at(at, claim)
  set_limit_timer(at, limit_of(claim), escaped_group_of(claim))
end

local function write_group(group)
  local hash = key('wf:limit:group', group.claim)
  if group.live == 0 and group.queued == 0 and (group.paced_until or 0) <= now * 1000 then
    if group.is_listed then
      redis.call('ZREM', key('wf:limit:groups', limit_of(group.claim)), escaped_group_of(group.claim))
      redis.call('UNLINK', hash)
    end
    if group.virtual_time then
      redis.call('UNLINK', key('wf:limit:fair:groups', group.claim), key('wf:limit:fair:turns', group.claim),
        key('wf:limit:fair:idle', group.claim), key('wf:limit:fair:queue', group.claim))
    end
    return
  end
  if group.live == 0 and group.queued == 0 and next(group.changes) then
    -- Only its rate remembers it: it is forgotten in time.
    grant_at(math.ceil(group.paced_until / 1000), group.claim)
  end
  for field, value in pairs(group.changes) do
    if value then
      redis.call('HSET', hash, field, value)
    else
      redis.call('HDEL', hash, field)
    end
  end
end

-- Writes what has changed in the groups that this decision has looked at, and forgets those in which nothing happens.
local function write_groups()
  for claim, group in pairs(groups) do
    if claim ~= tenant_runs then
      write_group(group)
    end
  end
  forget_groups()
end

-- What keeps a run from starting in this group.
local function blocked_by(group, reason, next_at)
  return {
    limit = limit_of(group.claim),
    group = group_name_of(group.claim),
    fullness = { outcome = reason, next_at = next_at },
    live = group.live,
    runs_max = group.rule.runs_max,
    queued = group.queued,
    slot_flow = group.slot_flow,
  }
end
