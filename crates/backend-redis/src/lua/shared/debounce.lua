-- needs: groups, places
-- Runs that wait for newer starts: one per workflow and group. The field `debounced` of a run is its group, the number of the
-- newest start among the tenant's arrivals, when that came and its priority, when the first one came, when the run goes on,
-- when at the latest, the number of its starts, and the id with which the newest was sent. `wf:limit:debounced` has `<group>/<workflow>/<run>` for each of a limit.
local function read_debounced(text)
  local claim, arrival, at, priority, first_at, ends_at, latest, starts, newest =
    string.match(text or '', '^(%S+) (%d+) (%d+) (%d) (%d+) (%d+) (%d+) (%d+) ?(%S*)$')
  return claim and { claim = claim, score = tonumber(arrival), arrival = tonumber(arrival), at = tonumber(at),
    priority = tonumber(priority), first_at = tonumber(first_at), ends_at = tonumber(ends_at), latest = tonumber(latest),
    starts = tonumber(starts), newest = newest } or nil
end

-- How long a run waits after one more start: the same as `DebounceRule::after_start`.
local function debounced_from(claim, rule, first_at, starts)
  local latest = math.max(first_at + rule.delay_max, now)
  return { claim = claim, first_at = first_at, ends_at = math.min(now + rule.quiet, latest), latest = latest,
    starts = starts }
end

local function debounced_key(debounced)
  return key('wf:limit:debounced', limit_of(debounced.claim))
end

local function debounced_member(debounced, workflow, run)
  return escaped_group_of(debounced.claim) .. '/' .. workflow .. '/' .. run
end

local function quiet_timer(debounced, run)
  return sortable(debounced.ends_at) .. '/' .. limit_of(debounced.claim) .. '/+' .. run
end

-- Lists the run and sets its timer.
local function index_debounced(run, workflow, debounced)
  redis.call('ZADD', debounced_key(debounced), 0, debounced_member(debounced, workflow, run))
  redis.call('ZADD', key('wf:limit:timers'), integer(debounced.ends_at), quiet_timer(debounced, run))
end

-- Has a run wait for newer starts.
local function enter_debounce(run, workflow, debounced)
  index_debounced(run, workflow, debounced)
  local numbers = { debounced.claim }
  for _, name in ipairs({ 'arrival', 'at', 'priority', 'first_at', 'ends_at', 'latest', 'starts' }) do
    numbers[#numbers + 1] = integer(debounced[name])
  end
  numbers[#numbers + 1] = debounced.newest
  redis.call('HSET', key('wf:run', run), 'debounced', table.concat(numbers, ' '))
end

-- A run waits for newer starts no more.
local function leave_debounce(run, debounced)
  local workflow = redis.call('HGET', key('wf:run', run), 'workflow') or ''
  redis.call('ZREM', debounced_key(debounced), debounced_member(debounced, workflow, run))
  redis.call('ZREM', key('wf:limit:timers'), quiet_timer(debounced, run))
  redis.call('HDEL', key('wf:run', run), 'debounced')
end

-- The run of the workflow in this group that takes newer starts in: the youngest whose quiet period is not over, and which
-- no turn has touched or is about to touch.
local function run_to_debounce(claim, workflow)
  local stem = escaped_group_of(claim) .. '/' .. workflow
  local members = redis.call('ZRANGE', key('wf:limit:debounced', limit_of(claim)), '(' .. stem .. '0', '[' .. stem .. '/',
    'BYLEX', 'REV', 'LIMIT', 0, limits.debounced_among_max)
  for _, member in ipairs(members) do
    local run = string.sub(member, #stem + 2)
    local found = read_fields(key('wf:run', run), 'debounced', 'status', 'version')
    local debounced = read_debounced(found.debounced)
    if debounced and now < debounced.ends_at and found.status == 'queued' and found.version == '0'
      and not redis.call('ZSCORE', key('wf:ready'), run) then
      return run, debounced
    end
  end
  return nil
end

local function show_quiet(debounced)
  return { ['until'] = debounced.ends_at, latest = debounced.latest, starts = debounced.starts }
end

-- What keeps the run from its slots.
local function blocked_by_quiet(group, debounced)
  local blocked = blocked_by(group)
  blocked.fullness = { outcome = 'quiet', value = show_quiet(debounced) }
  return blocked
end

-- A run that waits for newer starts, for people. It has no position yet.
local function show_debounced_run(run, debounced)
  local shown = show_queued_run(run, debounced)
  shown.quiet = show_quiet(debounced)
  return shown
end
