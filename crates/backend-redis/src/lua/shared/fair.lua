-- needs: claims, groups
-- Groups of fair queues: what they are charged, and which of them goes next. The same as `model::limit::fair`.
--
-- `wf:limit:fair:groups` has the charge of each group, and its number among equals. Those with runs that wait stand in
-- `wf:limit:fair:turns`, the others in `wf:limit:fair:idle`, by their charges. `wf:limit:fair:queue` has the runs that wait:
-- `<fair group>/<score>/<arrival>/<run>`.
local fair = {}

function fair.key(part, claim)
  return key('wf:limit:fair:' .. part, claim)
end

-- The group that is charged for a run, by the run's field `fair`. One that was accepted before has no name.
function fair.name_of(text, limit)
  for _, claim in ipairs(claims_in(text)) do
    if limit_of(claim) == limit then
      return escaped_group_of(claim)
    end
  end
  return ''
end

function fair.weight(group, name)
  local rule = group.rule
  if not rule.weight_of then
    rule.weight_of = {}
    for listed, weight in string.gmatch(rule.weights or '', '([^ =]*)=(%d+)') do
      rule.weight_of[listed] = tonumber(weight)
    end
  end
  return rule.weight_of[name] or 1
end

function fair.cost(run_ms, weight)
  return math.max(math.floor(run_ms * 1000 / weight), 1)
end

-- How long runs of a workflow hold their slots.
function fair.run_ms(workflow)
  return tonumber(redis.call('HGET', key('wf:limit:run_ms'), workflow) or limits.run_ms_unknown)
end

function fair.entry(name, score, arrival, run)
  return table.concat({ name, sortable(score), sortable(arrival), run }, '/')
end

-- A group as it is written, if it is known.
function fair.read(claim, name)
  local charge, turn = string.match(redis.call('HGET', fair.key('groups', claim), name) or '', '^(%d+) (%d+)$')
  return charge and { charge = tonumber(charge), turn = tonumber(turn),
    queued = redis.call('ZLEXCOUNT', fair.key('queue', claim), '[' .. name .. '/', '(' .. name .. '0') } or nil
end

local function list_of(claim, known)
  return fair.key(known.queued > 0 and 'turns' or 'idle', claim)
end

-- Writes a group, and its turn among the others. Nothing after: it is forgotten.
function fair.write(group, name, before, after)
  if before then
    redis.call('ZREM', list_of(group.claim, before), sortable(before.turn) .. '/' .. name)
  end
  if after then
    redis.call('ZADD', list_of(group.claim, after), integer(after.charge), sortable(after.turn) .. '/' .. name)
    redis.call('HSET', fair.key('groups', group.claim), name, integer(after.charge) .. ' ' .. integer(after.turn))
  else
    redis.call('HDEL', fair.key('groups', group.claim), name)
  end
  fair.set_virtual_time(group, group.virtual_time or 0)
end

-- A group with this field has fair groups to forget.
function fair.set_virtual_time(group, time)
  group.virtual_time = time
  group.changes.virtual_time = integer(time)
end

-- The group with the smallest charge in a list, and its charge.
function fair.smallest(part, claim)
  local found = redis.call('ZRANGE', fair.key(part, claim), 0, 0, 'WITHSCORES')
  if found[1] then
    return string.sub(found[1], 17), tonumber(found[2])
  end
  return nil
end

-- What a group is charged that begins to wait, or gets a slot at once.
function fair.charge_from(group, before, turn)
  local _, least = fair.smallest('turns', group.claim)
  local time = group.virtual_time or 0
  if least then
    time = math.min(math.max(time, least), least + turn)
  end
  return math.max(before and before.charge or 0, time - turn)
end

function fair.forget_smallest(group)
  if redis.call('ZCARD', fair.key('idle', group.claim)) > limits.fair_remembered_max then
    local name = fair.smallest('idle', group.claim)
    fair.write(group, name, fair.read(group.claim, name), nil)
  end
end

-- A run begins to wait in its group.
function fair.enter(group, name, place, run)
  local before, after = fair.read(group.claim, name), nil
  if before and before.queued > 0 then
    after = { charge = before.charge, turn = before.turn, queued = before.queued + 1 }
  else
    local workflow = redis.call('HGET', key('wf:run', run), 'workflow')
    local turn = fair.cost(fair.run_ms(workflow), fair.weight(group, name))
    after = { charge = fair.charge_from(group, before, turn), turn = place.arrival, queued = 1 }
  end
  redis.call('ZADD', fair.key('queue', group.claim), 0, fair.entry(name, place.score, place.arrival, run))
  fair.write(group, name, before, after)
end

-- A run does not wait in its group any more.
function fair.leave(group, name, entry)
  local before = fair.read(group.claim, name)
  redis.call('ZREM', fair.key('queue', group.claim), entry)
  local after = fair.read(group.claim, name)
  if before then
    fair.write(group, name, before, after)
    fair.forget_smallest(group)
  end
end

-- The first run that waits in the group that goes next: its group, and its entry.
function fair.first(claim)
  local name = fair.smallest('turns', claim)
  local entry = name and redis.call('ZRANGEBYLEX', fair.key('queue', claim), '[' .. name .. '/', '(' .. name .. '0',
    'LIMIT', 0, 1)[1]
  return name, entry
end

-- Charges the group of a run that gets a slot. Returns what it was charged.
function fair.charge(group, name, workflow, has_waited)
  local amount = fair.cost(fair.run_ms(workflow), fair.weight(group, name))
  local before = fair.read(group.claim, name)
  local charge
  if before and (has_waited or before.queued > 0) then
    charge = before.charge
  else
    charge = fair.charge_from(group, before, amount)
  end
  local after = { charge = charge + amount, turn = before and before.turn or 0, queued = before and before.queued or 0 }
  fair.write(group, name, before, after)
  local time = math.min(math.max(group.virtual_time, charge), charge + amount)
  if has_waited then
    local others = redis.call('ZCARD', fair.key('turns', group.claim)) - (after.queued > 0 and 1 or 0)
    time = time + math.floor(amount / (math.max(others, 0) + 1))
  end
  fair.set_virtual_time(group, time)
  fair.forget_smallest(group)
  return amount
end

-- For how long a run has held its slots, without the time of its approvals. The mean of its workflow follows it.
function fair.measure(found)
  local approvals = tonumber(found.approvals_ms or '0')
  if found.approvals_since then
    approvals = approvals + math.max(now - tonumber(found.approvals_since), 0)
  end
  local run_ms = math.max(math.max(now - tonumber(found.slots_since), 0) - approvals, 0)
  local means = key('wf:limit:run_ms')
  local before = tonumber(redis.call('HGET', means, found.workflow) or nil)
  redis.call('HSET', means, found.workflow, integer(before and math.floor((before * 3 + run_ms) / 4) or run_ms))
  return run_ms
end

-- Corrects what a run was charged, now that it has ended.
function fair.settle(group, name, amount, run_ms)
  local before = fair.read(group.claim, name)
  if before then
    local real = fair.cost(run_ms, fair.weight(group, name))
    local charge = math.max(before.charge - amount, 0) + real
    fair.write(group, name, before, { charge = charge, turn = before.turn, queued = before.queued })
  end
end

-- How many runs of a group go before another group's run, if each of them costs the same.
local function runs_before(known, at, turn, cost)
  local distance = at - known.charge
  if distance < 0 then
    return 0
  end
  local rest = math.fmod(distance, cost)
  local count = (distance - rest) / cost
  if rest > 0 or known.turn < turn then
    count = count + 1
  end
  return math.min(count, known.queued)
end

-- How many runs go before one that waits in a group, and it, if nothing else arrives.
function fair.position(group, run, place)
  local claim, name = group.claim, place.lane
  local own = fair.read(claim, name)
  if not own then
    return nil
  end
  local run_ms = fair.run_ms(redis.call('HGET', key('wf:run', run), 'workflow'))
  local before = redis.call('ZCOUNT', key('wf:limit:queue', claim), '-inf', '(' .. integer(limits.fair_lane))
  local in_group = redis.call('ZLEXCOUNT', fair.key('queue', claim), '[' .. name .. '/',
    '(' .. fair.entry(name, place.score, place.arrival, run))
  in_group = math.min(in_group, limits.positions_counted)
  before = math.min(before, limits.positions_counted) + in_group
  local at = own.charge + in_group * fair.cost(run_ms, fair.weight(group, name))
  local turns = redis.call('ZRANGE', fair.key('turns', claim), 0, limits.fair_counted, 'WITHSCORES')
  for index = 1, #turns, 2 do
    local other = string.sub(turns[index], 17)
    if tonumber(turns[index + 1]) > at then
      break
    elseif index > 2 * limits.fair_counted then
      return nil
    elseif other ~= name then
      local known = fair.read(claim, other)
      before = before + (known and runs_before(known, at, own.turn, fair.cost(run_ms, fair.weight(group, other))) or 0)
    end
  end
  return before < limits.positions_counted and before + 1 or nil
end
