-- needs: status, inbox, append, groups, fair, places, debounce
-- Grants: free slots go to the runs that wait for them, in the step that frees them. A grant takes all slots of a run.
--
-- `wf:limit:timers` has what is granted at a time: `<time>/<limit>/<group>`, or all groups of a limit,
-- `<time>/<limit>/*`, or those behind one, `<time>/<limit>/*/<group>`. `<time>/<limit>/+<run>` ends the quiet period of a
-- run. No escaped group begins with a star or a plus.
local grant_steps, granted, reordered = 0, 0, 0

-- Puts a run into the queue of the group that keeps it from starting.
local function wait_for(run, place, group, next_at)
  local order, lane = group.rule.order, nil
  if order == 'fair' then
    lane = fair.name_of(redis.call('HGET', key('wf:run', run), 'fair'), limit_of(group.claim))
  end
  enter_queue(run, place, group.claim, score_of(place, order), lane)
  if next_at then
    grant_at(next_at, group.claim)
  end
end

-- Moves runs that wait since before the order of their queue has changed to where they belong now.
local function reorder(group)
  local queue = key('wf:limit:queue', group.claim)
  for _, scores in ipairs(scores_of_other_orders(group.rule.order)) do
    local count = limits.reordered_at_once - reordered
    local members = count > 0 and redis.call('ZRANGEBYSCORE', queue, scores[1], scores[2], 'LIMIT', 0, count)
    for _, member in ipairs(members or {}) do
      local run = run_at(member)
      local place = read_place(redis.call('HGET', key('wf:run', run), 'waiting'))
      reordered = reordered + 1
      if place and place.claim == group.claim and member_of(place, run) == member then
        leave_queue(run, place)
        wait_for(run, place, group)
      end
    end
  end
end

-- Charges the groups of fair queues for a run that gets these slots.
local function charge_run(run, claims, waited_in)
  local charged, found = {}, nil
  for _, claim in ipairs(claims) do
    local group = load_group(claim)
    if group.rule.order == 'fair' then
      found = found or read_fields(key('wf:run', run), 'workflow', 'fair')
      local amount = fair.charge(group, fair.name_of(found.fair, limit_of(claim)), found.workflow, claim == waited_in)
      charged[#charged + 1] = claim .. ' ' .. integer(amount)
    end
  end
  if found then
    redis.call('HSET', key('wf:run', run), 'charged', table.concat(charged, ' '))
  end
end

-- Gives a run a slot of each of these groups.
local function acquire_limit_slots(run, claims)
  for _, claim in ipairs(claims) do
    local group = load_group(claim)
    list_group(group)
    redis.call('ZADD', key('wf:limit:live', claim), 0, run)
    acquire_in(group)
  end
end

-- The same, and a slot of its tenant. A child runs in that of its root.
local function acquire_slots(run, claims, is_child)
  if not is_child then
    -- The tenant's group is read before it changes.
    local tenant = load_group(tenant_runs)
    if redis.call('SADD', key('wf:runs:active'), run) == 1 then
      if tenant.live == 0 then
        redis.call('HSET', key('wf:tenant'), 'flow_since', integer(now))
      end
      acquire_in(tenant)
    end
  end
  acquire_limit_slots(run, claims)
end

-- The narrowest of its other groups that keeps a run from starting which goes before all of its own queue, and until when.
local function blocker_of(claims, own, arrival, is_child)
  for index = 1, is_child and #claims or #claims + 1 do
    local claim = claims[index] or tenant_runs
    if claim ~= own then
      local group = load_group(claim)
      local reason, next_at = fullness(group, group.live)
      if reason then
        return group, next_at
      end
      if group.queued > 0 then
        -- Its slot is promised to one that arrived earlier.
        local member = next_in_queue(group)
        if member and arrival_at(member) < arrival then
          return group
        end
      end
    end
  end
  return nil
end

local function grant(run, claims, own, is_child)
  charge_run(run, claims, own)
  acquire_slots(run, claims, is_child)
  redis.call('HSET', key('wf:run', run), 'slots_since', integer(now))
  post(run, '{"granted":{"at":' .. integer(now) .. '}}')
  granted = granted + 1
end

-- Starts a run, or has it wait in the queue that blocks it. `own`: the group that it would not wait for.
local function grant_or_queue(run, place, claims, own, is_child)
  local other, next_at = blocker_of(claims, own, place.arrival, is_child)
  if other then
    wait_for(run, place, other, next_at)
  else
    grant(run, claims, own, is_child)
  end
end

-- Takes the first run out of its queue. Nothing if it does not wait there: such an entry is removed.
local function take_first(group)
  local claim, member, lane, entry = group.claim, next_in_queue(group)
  local run = run_at(member)
  local found = read_fields(key('wf:run', run), 'waiting', 'claims', 'status', 'parent')
  local place = read_place(found.waiting)
  if not found.status or final[found.status] or not place or place.claim ~= claim or member_of(place, run) ~= member then
    remove_from_queue(group, member)
    if lane then
      fair.leave(group, lane, entry)
    end
    return nil
  end
  leave_queue(run, place)
  return run, place, claims_in(found.claims), found.parent ~= nil
end

-- One step for the run that goes next in a group: it starts, or moves to the queue that blocks it. False: there is no
-- such run, or it must wait.
local function grant_next(claim)
  local group = load_group(claim)
  if group.queued == 0 then
    return false
  end
  reorder(group)
  local reason, next_at = fullness(group, group.live)
  if reason then
    if next_at then
      grant_at(next_at, claim)
    end
    return false
  end
  if grant_steps == limits.grant_steps_max then
    grant_at(now, claim)
    return false
  end
  grant_steps = grant_steps + 1
  local run, place, claims, is_child = take_first(group)
  if run then
    grant_or_queue(run, place, claims, claim, is_child)
  end
  return true
end

-- Gives the free slots of these groups to the runs that wait for them. What one step does not reach, a timer continues.
local function grant_slots(claims)
  for _, claim in ipairs(claims) do
    while grant_next(claim) do end
  end
end

-- A run waits for newer starts no more: it starts, or has its place in the queue of the group that blocks it now.
local function end_debounce(run, debounced)
  grant_steps = grant_steps + 1
  leave_debounce(run, debounced)
  append_events(run, { string.format(formats.quiet_event, now, debounced.starts) })
  grant_or_queue(run, debounced, claims_in(redis.call('HGET', key('wf:run', run), 'claims')), nil)
end

-- The quiet period of a run ends, if it does not wait longer by now.
local function quiet_due(run)
  local debounced = read_debounced(redis.call('HGET', key('wf:run', run), 'debounced'))
  if not debounced then
    return
  end
  if debounced.ends_at <= now and grant_steps < limits.grant_steps_max then
    end_debounce(run, debounced)
  else
    redis.call('ZADD', key('wf:limit:timers'), integer(debounced.ends_at), quiet_timer(debounced, run))
  end
end

-- A limit that debounces no more has no run wait.
local function end_debounces(limit)
  if read_limit_rule(limit).quiet then
    return
  end
  local listed = key('wf:limit:debounced', limit)
  for _, member in ipairs(redis.call('ZRANGE', listed, '-', '+', 'BYLEX', 'LIMIT', 0, limits.grant_steps_max + 1)) do
    if grant_steps >= limits.grant_steps_max then
      set_limit_timer(now, limit, '*')
      return
    end
    redis.call('ZREM', listed, member)
    local run = string.match(member, '[^/]+$')
    local debounced = read_debounced(redis.call('HGET', key('wf:run', run), 'debounced'))
    if debounced then
      end_debounce(run, debounced)
    end
  end
end

-- The same for all groups of a limit, or for those behind one.
local function grant_all(limit, after)
  local queues, from = key('wf:limit:queues', limit), after and '(' .. after .. '/' or '-'
  while true do
    local member = redis.call('ZRANGE', queues, from, '+', 'BYLEX', 'LIMIT', 0, 1)[1]
    if not member then
      return end_debounces(limit)
    end
    if grant_steps == limits.grant_steps_max then
      set_limit_timer(now, limit, after and '*/' .. after or '*')
      return
    end
    -- A group in which nothing can be granted costs a step, too.
    grant_steps = grant_steps + 1
    after, from = string.sub(member, 1, -2), '(' .. member
    grant_slots({ limit .. ':' .. after })
  end
end

-- Grants what a timer stands for.
local function fire_limit_timer(member)
  local limit, what = string.match(member, '^%d+/([^/]+)/(.*)$')
  if not limit then
    return
  end
  if string.sub(what, 1, 1) == '+' then
    quiet_due(string.sub(what, 2))
  elseif string.sub(what, 1, 1) ~= '*' then
    grant_slots({ limit .. ':' .. what })
  elseif what == '*' then
    grant_all(limit)
  else
    grant_all(limit, string.sub(what, 3))
  end
end
