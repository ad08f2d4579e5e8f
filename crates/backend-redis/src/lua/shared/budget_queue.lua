-- Jobs that wait for a budget: by `group/since/job` in one set for each budget. The place of a job stands with the job, too.
local woken = 0

-- A job of the queue of a budget. One that does not wait there goes.
local function waiting_job(queue, member)
  local job = string.match(member, '([^/]*)$')
  local place, amount, at = unpack(redis.call('HMGET', key('wf:job', job), 'place', 'reserve', 'held_until'))
  if place ~= member then
    redis.call('ZREM', queue, member)
    return nil
  end
  return { job = job, amount = tonumber(amount), at = tonumber(at) }
end

-- Makes a waiting job due.
local function look_now(waiting)
  if waiting.at and waiting.at > now then
    redis.call('HSET', key('wf:job', waiting.job), 'held_until', integer(now))
    redis.call('ZADD', key('wf:held'), integer(now), waiting.job)
    woken = woken + 1
  end
end

-- Makes the first waiting jobs due for which enough is left now. `read_left` reads what is left.
local function wake_waiting(name, group, read_left)
  local queue = key('wf:budget:queue', name)
  local first = redis.call('ZRANGEBYLEX', queue, '[' .. group .. '/', '(' .. group .. '0', 'LIMIT', 0,
    limits.woken_at_once_max)
  if #first == 0 then
    return
  end
  local state = read_left()
  local left = state.remaining
  for _, member in ipairs(first) do
    local waiting = waiting_job(queue, member)
    if waiting and waiting.amount <= state.limit then
      if waiting.amount > left then
        return
      end
      left = left - waiting.amount
      look_now(waiting)
    end
  end
end

-- Makes the first jobs due that wait for any amount of the budget: what they wait for has changed.
local function wake_all(name)
  local queue = key('wf:budget:queue', name)
  for _, member in ipairs(redis.call('ZRANGE', queue, 0, limits.woken_at_once_max - 1)) do
    local waiting = waiting_job(queue, member)
    if waiting then
      look_now(waiting)
    end
  end
end

-- How many wait longer than the one at this place, and whether one of them can get what it waits for. One that wants more
-- than the whole amount does not hold up the others.
local function ahead_of(name, place, limit)
  local queue, from = key('wf:budget:queue', name), '[' .. string.match(place, '^[^/]*/')
  local first = redis.call('ZRANGEBYLEX', queue, from, '(' .. place, 'LIMIT', 0, limits.ahead_counted_max)
  for _, member in ipairs(first) do
    local waiting = waiting_job(queue, member)
    if waiting and waiting.amount <= limit then
      return #first, true
    end
  end
  return #first, false
end

-- Waiting jobs that this call has made due.
local function count_woken()
  return woken
end
