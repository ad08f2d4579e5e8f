-- needs: status, inbox, groups, places
-- Grants: free slots go to the runs that wait for them, in the step that frees them. A grant takes all slots of a run.
--
-- `wf:limit:timers` has what is granted at a time: `<time>/<limit>/<group>`, or all groups of a limit,
-- `<time>/<limit>/*`, or those behind one, `<time>/<limit>/*/<group>`. No escaped group begins with a star.
local grant_steps, granted = 0, 0

-- Puts a run into the queue of the group that keeps it from starting.
local function wait_for(run, place, group, next_at)
  enter_queue(run, place, group.claim, score_of(place, group.rule.order))
  if next_at then
    grant_at(next_at, group.claim)
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
      acquire_in(tenant)
    end
  end
  acquire_limit_slots(run, claims)
end

-- The narrowest of its other groups that keeps the first run of a queue from starting, why, and until when.
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
        local _, first_arrival = first_in_queue(claim)
        if first_arrival and first_arrival < arrival then
          return group
        end
      end
    end
  end
  return nil
end

local function grant(run, claims, is_child)
  acquire_slots(run, claims, is_child)
  redis.call('HSET', key('wf:run', run), 'slots_since', integer(now))
  post(run, '{"granted":{"at":' .. integer(now) .. '}}')
  granted = granted + 1
end

-- Takes the first run out of its queue. Nothing if it does not wait there: such an entry is removed.
local function take_first(claim)
  local run, _, member = first_in_queue(claim)
  local found = read_fields(key('wf:run', run), 'waiting', 'claims', 'status', 'parent')
  local place = read_place(found.waiting)
  if not found.status or final[found.status] or not place or place.claim ~= claim or member_of(place, run) ~= member then
    remove_from_queue(load_group(claim), member)
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
  local run, place, claims, is_child = take_first(claim)
  if run then
    local other, other_next_at = blocker_of(claims, claim, place.arrival, is_child)
    if other then
      wait_for(run, place, other, other_next_at)
    else
      grant(run, claims, is_child)
    end
  end
  return true
end

-- Gives the free slots of these groups to the runs that wait for them. What one step does not reach, a timer continues.
local function grant_slots(claims)
  for _, claim in ipairs(claims) do
    while grant_next(claim) do end
  end
end

-- The same for all groups of a limit, or for those behind one.
local function grant_all(limit, after)
  local queues, from = key('wf:limit:queues', limit), after and '(' .. after .. '/' or '-'
  while true do
    local member = redis.call('ZRANGE', queues, from, '+', 'BYLEX', 'LIMIT', 0, 1)[1]
    if not member then
      return
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
  if string.sub(what, 1, 1) ~= '*' then
    grant_slots({ limit .. ':' .. what })
  elseif what == '*' then
    grant_all(limit)
  else
    grant_all(limit, string.sub(what, 3))
  end
end
