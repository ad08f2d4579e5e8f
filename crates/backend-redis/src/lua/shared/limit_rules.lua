-- needs: claims, groups, fair, places, debounce, grants, slots, inspection
-- What must be true of named limits: their slots, and their queues. What a group counts is the size of its lists.

-- The group behind one: first that of the tenant, then those of the limits, by name.
local function next_group(claim)
  local limit, from = '', '-'
  if claim == '' then
    return tenant_runs
  elseif claim ~= tenant_runs then
    limit, from = limit_of(claim), '(' .. escaped_group_of(claim)
  end
  while true do
    local group = limit ~= '' and look('ZRANGE', key('wf:limit:groups', limit), from, '+', 'BYLEX', 'LIMIT', 0, 1)
    if group and group[1] then
      return limit .. ':' .. group[1]
    end
    local after = limit == '' and '-' or '(' .. limit
    limit = (look('ZRANGE', key('wf:limits'), after, '+', 'BYLEX', 'LIMIT', 0, 1) or {})[1]
    if not limit then
      return nil
    end
    from = '-'
  end
end

-- The runs that each group lists under this name, and where each of them stands: the group, and the member.
local function over_groups(name, run_in)
  return function(after, limit)
    local claim, offset = string.match(after, '^(%S*) ?(%d*)$')
    local subjects, places, looked_at = {}, {}, 0
    claim, offset = claim == '' and next_group('') or claim, tonumber(offset) or 0
    while claim do
      local members = look('ZRANGE', key(name, claim), offset, offset + limit - #subjects - 1) or {}
      for _, member in ipairs(members) do
        subjects[#subjects + 1] = run_in(member)
        places[#subjects] = claim .. ' ' .. member
      end
      looked_at, offset = looked_at + #members + 1, offset + #members
      if #subjects == limit or looked_at > limit then
        return subjects, claim .. ' ' .. integer(offset), places
      end
      claim, offset = next_group(claim), 0
    end
    return subjects, nil, places
  end
end

-- All places of a run in what `over` goes through. Only a repair asks for them.
local function places_of(over, run)
  local found, after = {}, ''
  repeat
    local subjects, next_place, places = over(after, 1000)
    for index, subject in ipairs(subjects) do
      if subject == run then
        found[#found + 1] = places[index]
      end
    end
    after = next_place
  until not after
  return found
end

local function split_place(place)
  return string.match(place, '^(%S+) (%S+)$')
end

local over_slots = over_groups('wf:limit:live', function(run)
  return run
end)

rules.limit_slot_without_run = { {
  over = over_slots,
  finds = function(run, place)
    local state = state_of_run(run)
    local is_over = state == 'gone' or state == 'ended'
    if not is_over or (place or '') == '' and #places_of(over_slots, run) == 0 then
      return nil
    end
    return 'a slot of a limit is held by a run that ' .. (state == 'gone' and 'is not there' or 'has ended')
  end,
  repairs = function(run)
    local freed = {}
    for _, place in ipairs(places_of(over_slots, run)) do
      local claim = split_place(place)
      redis.call('ZREM', key('wf:limit:live', claim), run)
      -- It is read as it is now.
      groups[claim] = nil
      freed[#freed + 1] = claim
    end
    grant_slots(freed)
    write_groups()
  end,
} }

rules.run_without_limit_slot = { {
  over = over_ordered('wf:runs'),
  finds = function(run)
    local found = look('HMGET', key('wf:run', run), 'claims', 'parent', 'waiting')
    if not found or not found[1] or state_of_run(run) ~= 'live' then
      return nil
    end
    -- A child that does not wait has begun, or is about to.
    if look('SISMEMBER', key('wf:runs:active'), run) ~= 1 and (not found[2] or found[3]) then
      return nil
    end
    for _, claim in ipairs(claims_in(found[1])) do
      if look('ZSCORE', key('wf:limit:live', claim), run) == false then
        return 'the run is live and holds no slot of limit `' .. limit_of(claim) .. '`'
      end
    end
  end,
  repairs = restore_slots,
} }

-- A queued run waits in a queue, unless something has come for it that its next turn takes into account.
rules.queued_run_in_no_queue = { {
  over = over_ordered('wf:runs'),
  finds = function(run)
    local found = look('HMGET', key('wf:run', run), 'status', 'waiting', 'lease', 'debounced')
    if not found or found[1] ~= 'queued' or found[3] or found[4] or is_scored('wf:ready', run) ~= false
      or look('SISMEMBER', key('wf:runs:active'), run) ~= 0 then
      return nil
    end
    local place = read_place(found[2])
    return (not place or look('ZSCORE', key('wf:limit:queue', place.claim), member_of(place, run)) == false)
      and 'the run is queued and waits in no queue'
  end,
  repairs = function(run)
    local place = read_place(redis.call('HGET', key('wf:run', run), 'waiting'))
      or { arrival = redis.call('HINCRBY', key('wf:tenant'), 'arrivals', 1), at = now, priority = 4 }
    local found = read_fields(key('wf:run', run), 'claims', 'parent')
    -- A child does not wait for a slot of its tenant.
    local queue = found.parent and claims_in(found.claims)[1] or tenant_runs
    -- From here it is moved to the queue that blocks it, or starts.
    enter_queue(run, place, queue, score_of(place, load_group(queue).rule.order))
    grant_at(now, queue)
    write_groups()
  end,
} }

local over_entries = over_groups('wf:limit:queue', run_at)

-- Whether a run waits at this place.
local function is_own_place(run, at)
  local claim, member = split_place(at)
  local found = look('HMGET', key('wf:run', run), 'status', 'waiting')
  local place = found and found[1] == 'queued' and read_place(found[2])
  return found == nil or place and place.claim == claim and member_of(place, run) == member
end

rules.limit_queue_entry_without_run = { {
  over = over_entries,
  finds = function(run, at)
    for _, place in ipairs((at or '') ~= '' and { at } or places_of(over_entries, run)) do
      if not is_own_place(run, place) then
        return 'a queue has an entry of a run that does not wait there'
      end
    end
  end,
  repairs = function(run)
    for _, place in ipairs(places_of(over_entries, run)) do
      if not is_own_place(run, place) then
        local claim, member = split_place(place)
        remove_from_queue(load_group(claim), member)
      end
    end
    write_groups()
  end,
} }

-- A run that waits for newer starts is listed, and has a timer.
rules.debounced_run_without_timer = { {
  over = over_ordered('wf:runs'),
  finds = function(run)
    local found = look('HMGET', key('wf:run', run), 'debounced', 'workflow')
    local debounced = found and read_debounced(found[1])
    if not debounced then
      return nil
    end
    local is_indexed = look('ZSCORE', debounced_key(debounced), debounced_member(debounced, found[2] or '', run))
      and look('ZSCORE', key('wf:limit:timers'), quiet_timer(debounced, run))
    return not is_indexed and 'the run waits for newer starts, and no timer ends that'
  end,
  repairs = function(run)
    local found = read_fields(key('wf:run', run), 'debounced', 'workflow')
    index_debounced(run, found.workflow, read_debounced(found.debounced))
  end,
} }

-- The runs that limits list as waiting for newer starts, and where each of them stands: the limit, and the member.
local function over_debounced(after, limit)
  local name, offset = string.match(after, '^(%S*) ?(%d*)$')
  local names = look('ZRANGE', key('wf:limits'), name == '' and '-' or '[' .. name, '+', 'BYLEX') or {}
  local subjects, places = {}, {}
  offset = tonumber(offset) or 0
  for _, listed in ipairs(names) do
    local members = look('ZRANGE', key('wf:limit:debounced', listed), offset, offset + limit - #subjects - 1) or {}
    for _, member in ipairs(members) do
      subjects[#subjects + 1] = string.match(member, '[^/]+$')
      places[#subjects] = listed .. ' ' .. member
    end
    if #subjects == limit then
      return subjects, listed .. ' ' .. integer(offset + #members), places
    end
    offset = 0
  end
  return subjects, nil, places
end

-- Whether a run waits for newer starts at this place.
local function is_own_debounce(run, at)
  local limit, member = split_place(at)
  local found = look('HMGET', key('wf:run', run), 'debounced', 'workflow')
  local debounced = found and read_debounced(found[1])
  return found == nil or debounced and limit_of(debounced.claim) == limit
    and debounced_member(debounced, found[2] or '', run) == member
end

rules.debounce_entry_without_run = { {
  over = over_debounced,
  finds = function(run, at)
    for _, place in ipairs((at or '') ~= '' and { at } or places_of(over_debounced, run)) do
      if not is_own_debounce(run, place) then
        return 'a run is listed as waiting for newer starts, and does not'
      end
    end
  end,
  repairs = function(run)
    for _, place in ipairs(places_of(over_debounced, run)) do
      if not is_own_debounce(run, place) then
        local limit, member = split_place(place)
        redis.call('ZREM', key('wf:limit:debounced', limit), member)
      end
    end
  end,
} }

-- Whether a timer is about to grant the slots of the group.
local timers_looked_at = 10000
local function has_limit_timer(claim)
  local limit, group = limit_of(claim), limit_of(claim) .. '/' .. escaped_group_of(claim)
  for _, member in ipairs(look('ZRANGE', key('wf:limit:timers'), 0, timers_looked_at - 1) or {}) do
    local what = string.sub(member, 17)
    if what == group or string.sub(what, 1, #limit + 2) == limit .. '/*' then
      return true
    end
  end
  return false
end

-- The first run of a queue starts when its group has room, at once or by a timer.
rules.startable_run_waits = { {
  over = over_entries,
  finds = function(run)
    local place = read_place(look('HGET', key('wf:run', run), 'waiting'))
    local first = place and look('ZRANGE', key('wf:limit:queue', place.claim), 0, 0) or {}
    if not first[1] or run_at(first[1]) ~= run or has_limit_timer(place.claim) then
      return nil
    end
    forget_groups()
    local group = load_group(place.claim)
    local reason = fullness(group, group.live)
    return not reason and 'limit `' .. limit_of(place.claim) .. '` has room, and its first queued run does not start'
      or reason == 'rate' and 'the first queued run of limit `' .. limit_of(place.claim) .. '` has no timer'
  end,
  repairs = function(run)
    grant_at(now, read_place(redis.call('HGET', key('wf:run', run), 'waiting')).claim)
  end,
} }

-- What the lists of a fair queue must be, by the runs that wait in it: the entries, and how many runs each group has.
local function fair_entries(claim)
  local entries, counts = {}, {}
  for _, member in ipairs(look('ZRANGEBYSCORE', key('wf:limit:queue', claim), integer(limits.fair_lane), '+inf') or {}) do
    local run = run_at(member)
    local place = read_place(look('HGET', key('wf:run', run), 'waiting'))
    if place and place.claim == claim and place.lane then
      entries[fair.entry(place.lane, place.score, place.arrival, run)] = place
      counts[place.lane] = (counts[place.lane] or 0) + 1
    end
  end
  return entries, counts
end

local function has_fair_drift(claim)
  local entries, counts = fair_entries(claim)
  local queue, size = look('ZRANGE', fair.key('queue', claim), 0, -1) or {}, 0
  for _, entry in ipairs(queue) do
    if not entries[entry] then
      return true
    end
  end
  for _ in pairs(entries) do
    size = size + 1
  end
  local known, listed = look('HGETALL', fair.key('groups', claim)) or {}, {}
  for index = 1, #known, 2 do
    local name, charge, turn = known[index], string.match(known[index + 1], '^(%d+) (%d+)$')
    local list = fair.key(counts[name] and 'turns' or 'idle', claim)
    listed[name] = true
    if not charge or look('ZSCORE', list, sortable(turn) .. '/' .. name) == false then
      return true
    end
  end
  for name in pairs(counts) do
    if not listed[name] then
      return true
    end
  end
  local turns = (look('ZCARD', fair.key('turns', claim)) or 0) + (look('ZCARD', fair.key('idle', claim)) or 0)
  return size ~= #queue or turns ~= #known / 2
end

local function over_claims(after, limit)
  local subjects, claim = {}, next_group(after)
  while claim and #subjects < limit do
    subjects[#subjects + 1] = limit_of(claim) .. '/' .. escaped_group_of(claim)
    after, claim = claim, next_group(claim)
  end
  return subjects, claim and after
end

local function claim_at(subject)
  return (string.gsub(subject, '/', ':', 1))
end

rules.fair_queue_drift = { {
  over = over_claims,
  finds = function(subject)
    return string.find(subject, '/', 1, true) and has_fair_drift(claim_at(subject))
      and 'the groups of the fair queue are not those of the runs that wait in it'
  end,
  repairs = function(subject)
    local group = load_group(claim_at(subject))
    local claim, entries, counts = group.claim, fair_entries(group.claim)
    local known = redis.call('HGETALL', fair.key('groups', claim))
    redis.call('UNLINK', fair.key('queue', claim), fair.key('turns', claim), fair.key('idle', claim))
    local charges = {}
    for index = 1, #known, 2 do
      charges[known[index]] = known[index + 1]
    end
    for entry, place in pairs(entries) do
      redis.call('ZADD', fair.key('queue', claim), 0, entry)
      charges[place.lane] = charges[place.lane] or integer(group.virtual_time or 0) .. ' ' .. integer(place.arrival)
    end
    for name, text in pairs(charges) do
      local charge, turn = string.match(text, '^(%d+) (%d+)$')
      local listed = { charge = tonumber(charge or 0), turn = tonumber(turn or 0), queued = counts[name] or 0 }
      fair.write(group, name, nil, listed)
    end
    write_groups()
  end,
} }
