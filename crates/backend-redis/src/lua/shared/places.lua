-- needs: groups
-- Places: in which queue a run waits, and in which order. The field `waiting` of a run is its group, its score in the
-- order of that queue, its number among the tenant's arrivals, when it arrived, and its priority.
local function read_place(text)
  local claim, score, arrival, at, priority = string.match(text or '', '^(%S+) (%d+) (%d+) (%d+) (%d)$')
  return claim and { claim = claim, score = tonumber(score), arrival = tonumber(arrival), at = tonumber(at),
    priority = tonumber(priority) } or nil
end

-- A minute of waiting is worth a level. A run keeps its distance to all others, so that its score never changes.
local function score_of(place, order)
  if order == 'priority' then
    return place.at + (9 - place.priority) * 60000
  end
  return place.arrival
end

-- Among equal scores, members sort by their arrival.
local function member_of(place, run)
  return sortable(place.arrival) .. '/' .. run
end

local function run_at(member)
  return string.sub(member, 17)
end

-- The run that goes next in a queue, with its number among the arrivals.
local function first_in_queue(claim)
  local member = redis.call('ZRANGE', key('wf:limit:queue', claim), 0, 0)[1]
  if member then
    return run_at(member), tonumber(string.sub(member, 1, 15)), member
  end
  return nil
end

-- Puts a run into the queue of a group, at this score.
local function enter_queue(run, place, claim, score)
  local group = load_group(claim)
  list_group(group)
  if group.queued == 0 then
    -- With a '/' the groups sort as their rows do in the local stores.
    redis.call('ZADD', key('wf:limit:queues', limit_of(claim)), 0, escaped_group_of(claim) .. '/')
  end
  redis.call('ZADD', key('wf:limit:queue', claim), integer(score), member_of(place, run))
  group.queued = group.queued + 1
  redis.call('HSET', key('wf:run', run), 'waiting', table.concat({ claim, integer(score), integer(place.arrival),
    integer(place.at), integer(place.priority) }, ' '))
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
  if group.replacing == run then
    set_replacing(group, false)
  end
  redis.call('HDEL', key('wf:run', run), 'waiting')
end

-- How many go first, and it. Nothing for one that is further back than is counted.
local function position_of(run, place)
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
    },
    position = position,
  }
end
