-- needs: groups, fair
-- Places: in which queue a run waits, and in which order. The field `waiting` of a run is its group, its score in the
-- order of that queue, its number among the tenant's arrivals, when it arrived, and its priority; if it waits in a group of
-- a fair queue, a '/' and that group.
local function read_place(text)
  local claim, score, arrival, at, priority, lane = string.match(text or '', '^(%S+) (%d+) (%d+) (%d+) (%d) ?(%S*)$')
  return claim and { claim = claim, score = tonumber(score), arrival = tonumber(arrival), at = tonumber(at),
    priority = tonumber(priority), lane = lane ~= '' and string.sub(lane, 2) or nil } or nil
end

-- A minute of waiting is worth a level. A run keeps its distance to all others, so that its score never changes.
local function score_of(place, order)
  if order == 'fifo' then
    return place.arrival
  end
  return place.at + (9 - place.priority) * 60000 + (order == 'priority' and limits.priority_scores or 0)
end

-- The scores with which a run waits in a queue of this order since before the order has changed.
local function scores_of_other_orders(order)
  local priority, lane = integer(limits.priority_scores), integer(limits.fair_lane)
  if order == 'fifo' then
    return { { integer(limits.time_scores), '+inf' } }
  elseif order == 'priority' then
    return { { '-inf', '(' .. priority }, { lane, '+inf' } }
  end
  -- One with 0 was put before all groups.
  return { { '1', '(' .. lane } }
end

-- Among equal scores, members sort by their arrival.
local function member_of(place, run)
  return sortable(place.arrival) .. '/' .. run
end

local function run_at(member)
  return string.sub(member, 17)
end

-- The run that goes next in a queue: its member there, and if it waits in a group of a fair queue, that and its entry.
local function next_in_queue(group)
  local first = redis.call('ZRANGE', key('wf:limit:queue', group.claim), 0, 0, 'WITHSCORES')
  if group.rule.order == 'fair' and first[1] and tonumber(first[2]) > 0 then
    local lane, entry = fair.first(group.claim)
    if entry then
      return string.match(entry, '^[^/]*/%d+/(.*)$'), lane, entry
    end
  end
  return first[1]
end

local function arrival_at(member)
  return tonumber(string.sub(member, 1, 15))
end

-- Puts a run into the queue of a group, at this score: before all groups of a fair one, or in its lane, the fair group.
local function enter_queue(run, place, claim, score, lane)
  place.claim, place.score, place.lane = claim, score, lane
  local group = load_group(claim)
  list_group(group)
  if group.queued == 0 then
    -- With a '/' the groups sort as their rows do in the local stores.
    redis.call('ZADD', key('wf:limit:queues', limit_of(claim)), 0, escaped_group_of(claim) .. '/')
  end
  local score_of_all = lane and limits.fair_lane + place.arrival or score
  redis.call('ZADD', key('wf:limit:queue', claim), integer(score_of_all), member_of(place, run))
  if lane then
    fair.enter(group, lane, place, run)
  end
  group.queued = group.queued + 1
  redis.call('HSET', key('wf:run', run), 'waiting', table.concat({ claim, integer(score), integer(place.arrival),
    integer(place.at), integer(place.priority), lane and '/' .. lane }, ' '))
end

local function remove_from_queue(group, member)
  if redis.call('ZREM', key('wf:limit:queue', group.claim), member) == 1 then
    group.queued = group.queued - 1
    if group.queued == 0 then
      redis.call('ZREM', key('wf:limit:queues', limit_of(group.claim)), escaped_group_of(group.claim) .. '/')
    end
  end
end

-- Takes a run out of the queue in which it waits.
local function leave_queue(run, place)
  local group = load_group(place.claim)
  remove_from_queue(group, member_of(place, run))
  if place.lane then
    fair.leave(group, place.lane, fair.entry(place.lane, place.score, place.arrival, run))
  end
  if group.replacing == run then
    set_replacing(group, false)
  end
  redis.call('HDEL', key('wf:run', run), 'waiting')
end

-- How many go first, and it. Nothing for one that is further back than is counted.
local function position_of(run, place)
  local group = load_group(place.claim)
  if place.lane and group.rule.order == 'fair' then
    return fair.position(group, run, place)
  end
  local before = redis.call('ZRANK', key('wf:limit:queue', place.claim), member_of(place, run))
  return before and before < limits.positions_counted and before + 1 or nil
end

-- A run that waits, for people.
local function show_queued_run(run, place, position)
  return {
    run = run,
    waiting = {
      limit = limit_of(place.claim),
      group = group_name_of(place.claim),
      score = place.score,
      place = { arrival = place.arrival, at = place.at, priority = place.priority },
      fair = place.lane and group_name_of(':' .. place.lane),
    },
    position = position,
  }
end
