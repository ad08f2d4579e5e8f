-- needs: claims, groups, fair, places, grants, debounce, judge, replacements
-- What limits make of a start: it begins, is rejected, waits, or another run answers it. `rows` are the functions that write
-- rows of starts.

-- The answer to a start whose run waits.
local function show_place(run, waiting, waits_for_starts, usage)
  forget_groups()
  local debounced = read_debounced(waits_for_starts)
  if debounced then
    return { outcome = 'queued', run = run, blocked = blocked_by_quiet(load_group(debounced.claim), debounced), usage = usage }
  end
  local place = read_place(waiting)
  local group = load_group(place.claim)
  local reason, next_at = fullness(group, group.live)
  return { outcome = 'queued', run = run, position = position_of(run, place),
    blocked = blocked_by(group, reason or 'others', next_at), usage = usage }
end

-- The groups that a start counts in, and those of fair queues that are charged for it.
local function write_claims(run, start, ...)
  local hash = key('wf:run', run)
  if #start.claims > 0 then
    redis.call('HSET', hash, 'claims', table.concat(start.claims, ' '), ...)
  end
  if start.fair then
    redis.call('HSET', hash, 'fair', table.concat(start.fair, ' '))
  else
    redis.call('HDEL', hash, 'fair')
  end
end

local function acquire_claims(start)
  write_claims(start.run, start, 'slots_since', integer(now))
  charge_run(start.run, start.claims)
  acquire_slots(start.run, start.claims)
  if start.fair and start.begun.status == 'waiting' then
    redis.call('HSET', key('wf:run', start.run), 'approvals_since', integer(now))
  end
end

-- A place behind all runs of the tenant that have ever waited. `place`: what else is known of it.
local function next_place(start, place)
  place.arrival, place.at = redis.call('HINCRBY', key('wf:tenant'), 'arrivals', 1), now
  place.priority = start.priority
  return place
end

-- Lets the run wait, as `how` says. What ends or cancels another run comes last: nothing takes that back.
local function queue_start(start, found, rows, how, full, victim)
  local refusal = rows.begin_rows(start)
  if refusal then
    return refusal
  end
  local run, group = start.run, full.group
  local claim = group.claim
  local blocked, position = blocked_by(group, full.reason, full.next_at), nil
  if group.rule.order == 'fifo' then
    position = group.queued + 1
  end
  rows.write_queued_run(start, now + group.rule.wait_max)
  write_claims(run, start)
  local place = next_place(start, {})
  start.waits_in, start.place = claim, place
  if how == 'replace_running' then
    position = 1
    replace_running(run, place, group, victim)
  elseif how == 'replace_queued' then
    position = position and position - 1
    local last = redis.call('ZRANGE', key('wf:limit:queue', claim), -1, -1)[1]
    wait_for(run, place, group, full.next_at)
    supersede_last(last, run, claim)
  else
    wait_for(run, place, group, full.next_at)
  end
  if place.lane then
    position = position_of(run, place)
  end
  rows.write_key(start, run, found.key_retention)
  return { outcome = 'queued', run = run, position = position, blocked = blocked, usage = found.usage }
end

-- Lets the start's key, if it has one, stand for a run that exists. False: that stands for as many as it may.
local function join_key(start, found, rows, run)
  if not start.key then
    return true
  end
  local hash = key('wf:run', run)
  local joined = tonumber(redis.call('HGET', hash, 'joined_keys') or '0')
  if joined >= limits.joined_keys_max then
    return false
  end
  redis.call('HSET', hash, 'joined_keys', integer(joined + 1))
  rows.write_key(start, run, found.key_retention)
  return true
end

-- Lets the run wait for newer starts.
local function debounce_start(start, found, rows, group)
  local refusal = rows.begin_rows(start)
  if refusal then
    return refusal
  end
  local run, claim = start.run, group.claim
  local debounced = next_place(start, debounced_from(claim, group.rule, now, 1))
  debounced.newest = run
  start.debounced = debounced
  rows.write_debounced_run(start, debounced.ends_at + group.rule.wait_max)
  write_claims(run, start)
  enter_debounce(run, start.workflow, debounced)
  rows.write_key(start, run, found.key_retention)
  return { outcome = 'queued', run = run, blocked = blocked_by_quiet(group, debounced), usage = found.usage }
end

-- A run that waits for newer starts becomes what this one asks for, in all but its id and when it was created.
local function take_in(start, found, rows, group, run, before)
  -- The answer to it was lost: it was taken in, or a newer one came before it.
  if start.is_repeat and not start.key and start.run <= before.newest then
    return { outcome = 'queued', run = run, blocked = blocked_by_quiet(group, before), usage = found.usage }
  end
  if not join_key(start, found, rows, run) then
    return { outcome = 'queue_full', blocked = blocked_by_quiet(group, before), usage = found.usage }
  end
  local debounced = next_place(start, debounced_from(before.claim, group.rule, before.first_at, before.starts + 1))
  debounced.newest = start.run
  leave_debounce(run, before)
  enter_debounce(run, start.workflow, debounced)
  write_claims(run, start)
  rows.replace_start(start, run, before.first_at, debounced.ends_at + group.rule.wait_max)
  return { outcome = 'queued', run = run, blocked = blocked_by_quiet(group, debounced), usage = found.usage }
end

-- Lets a run that exists answer the start. Its key stands for that run from now on.
local function join(start, found, rows, group, run)
  local hash, blocked = key('wf:run', run), blocked_by(group, 'slots')
  if not join_key(start, found, rows, run) then
    return { outcome = 'queue_full', blocked = blocked, usage = found.usage }
  end
  local status = redis.call('HGET', hash, 'status') or 'pending'
  return { outcome = 'joined', run = run, status = status, blocked = blocked, usage = found.usage }
end

local function reject(found, rows, full)
  if full.group.claim == tenant_runs and full.reason ~= 'paused' then
    return rows.at_capacity(found)
  end
  return { outcome = 'limit_reached', blocked = blocked_by(full.group, full.reason, full.next_at), usage = found.usage }
end

-- The narrowest full limit that rejects, where none of them lets another run answer, end or wait longer: that one decides,
-- and the groups behind it need not be read.
local function first_that_rejects(claims)
  for _, claim in ipairs(claims) do
    local policy = read_limit_rule(limit_of(claim)).on_full
    if policy ~= 'reject' and policy ~= 'queue' then
      return nil
    end
  end
  for _, claim in ipairs(claims) do
    if read_limit_rule(limit_of(claim)).on_full == 'reject' then
      local group = load_group(claim)
      local reason, next_at = fullness_for_newcomer(group, group.live)
      if reason then
        return { group = group, reason = reason, next_at = next_at }
      end
    end
  end
  return nil
end

local function judge_start(start, found, rows)
  local rejects = first_that_rejects(start.claims)
  if rejects then
    return reject(found, rows, rejects)
  end
  local met = {}
  for index, claim in ipairs(start.claims) do
    met[index] = load_group(claim)
  end
  met[#met + 1] = load_group(tenant_runs)
  local victim = find_victim(met)
  local full, debounces = full_groups(met), find_debounce(met)
  local how, decides = judge(full, true, debounces)
  if how == 'join' then
    local run = run_to_join(decides.group.claim, start.workflow)
    if run then
      return join(start, found, rows, decides.group, run)
    end
    how, decides = judge(full, false, debounces)
  elseif how == 'debounce' then
    local run, before = run_to_debounce(decides.group.claim, start.workflow)
    if run then
      return take_in(start, found, rows, decides.group, run, before)
    end
    how, decides = judge(full, false, debounces)
  end
  if how == 'start' then
    return rows.create(start, found, acquire_claims)
  elseif how == 'debounce' then
    return debounce_start(start, found, rows, decides.group)
  elseif how == 'reject' then
    return reject(found, rows, decides)
  elseif how == 'queue_full' then
    return { outcome = 'queue_full', blocked = blocked_by(decides.group, decides.reason, decides.next_at),
      usage = found.usage }
  end
  return queue_start(start, found, rows, how, decides, victim)
end

-- Decides by the groups that the start counts in.
local function arrive(start, found, rows)
  forget_groups()
  groups[tenant_runs] = tenant_group(found)
  local decided = judge_start(start, found, rows)
  write_groups()
  return decided
end

-- A group that came into being with the start goes with it.
local function undo_claim(start, claim)
  local queue, live, limit = key('wf:limit:queue', claim), key('wf:limit:live', claim), limit_of(claim)
  redis.pcall('ZREM', live, start.run)
  if start.place then
    redis.pcall('ZREM', queue, member_of(start.place, start.run))
    if start.place.lane and start.place.claim == claim then
      local place = start.place
      pcall(fair.leave, load_group(claim), place.lane, fair.entry(place.lane, place.score, place.arrival, start.run))
    end
  end
  if redis.pcall('ZCARD', queue) == 0 then
    redis.pcall('ZREM', key('wf:limit:queues', limit), escaped_group_of(claim) .. '/')
    if redis.pcall('ZCARD', live) == 0 and redis.pcall('EXISTS', key('wf:limit:group', claim)) == 0 then
      redis.pcall('ZREM', key('wf:limit:groups', limit), escaped_group_of(claim))
    end
  end
end

local function undo_claims(start)
  for _, claim in ipairs(start.claims) do
    undo_claim(start, claim)
  end
  if start.waits_in then
    undo_claim(start, start.waits_in)
  end
  local debounced = start.debounced
  if debounced then
    redis.pcall('ZREM', debounced_key(debounced), debounced_member(debounced, start.workflow, start.run))
    redis.pcall('ZREM', key('wf:limit:timers'), quiet_timer(debounced, start.run))
  end
end
