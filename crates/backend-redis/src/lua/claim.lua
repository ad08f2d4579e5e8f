-- Gives waiting jobs to a worker, oldest first over all of its topics and all kinds that it is capable of,
-- each under a new lease with a larger fence.
local worker, topics, capabilities = argument(), argument(), argument()
local jobs_max, term, is_until_deadline, is_on_http = number(), number(), argument() == '1', argument() == '1'
local passed_over_max = 1000

-- A worker that asks ten times a second is written down once. Whether it drains.
local function see_worker()
  local hash = key('wf:worker', worker)
  local before = redis.call('HMGET', hash, 'topics', 'capabilities', 'last_seen_at', 'is_draining')
  if before[1] == topics and before[2] == capabilities and now - tonumber(before[3]) < 1000 then
    return before[4] == '1'
  end
  redis.call('HSET', hash, 'topics', topics, 'capabilities', capabilities, 'last_seen_at', integer(now))
  redis.call('HSETNX', hash, 'first_seen_at', integer(now))
  redis.call('ZADD', key('wf:workers'), 0, worker)
  return before[4] == '1'
end

-- The leases that this very request was given when it was asked first.
local function given_before()
  local given = {}
  for _, job in ipairs(redis.call('ZRANGE', key('wf:leases'), 0, -1)) do
    local held = redis.call('HMGET', key('wf:job', job), 'worker', 'request')
    if held[1] == worker and held[2] == request then
      given[#given + 1] = redis.call('HMGET', key('wf:job', job), 'job', 'fence', 'ttl', 'expires_at', 'claimed_at',
        'created_at')
    end
  end
  table.sort(given, function(one, other)
    return tonumber(one[2]) < tonumber(other[2])
  end)
  return given
end

local queues = {}
-- The queues of a topic that hold what the worker is capable of. The mark of a kind goes when its queue is found empty.
local function read_queues(topic, is_capable, kinds_max)
  queues[#queues + 1] = queue_key(topic)
  if next(is_capable) == nil then
    return
  end
  for _, kind in ipairs(redis.call('ZRANGE', key('wf:kinds', topic), '-', '+', 'BYLEX', 'LIMIT', 0, kinds_max)) do
    local fits = true
    for tag in string.gmatch(kind, '[^+]+') do
      fits = fits and is_capable[tag]
    end
    if redis.call('EXISTS', queue_key(topic, kind)) == 0 then
      redis.call('ZREM', key('wf:kinds', topic), kind)
    elseif fits then
      queues[#queues + 1] = queue_key(topic, kind)
    end
  end
end

-- A topic that was named twice shows its jobs once.
local function read_topics()
  local topics_named, is_capable, known = {}, {}, {}
  for index = 1, number() do
    topics_named[index] = argument()
  end
  for _ = 1, number() do
    is_capable[argument()] = true
  end
  local kinds_max = number()
  for _, topic in ipairs(topics_named) do
    if not known[topic] then
      known[topic] = true
      read_queues(topic, is_capable, kinds_max)
    end
  end
end

-- The first so many of each queue, without those that cannot be had.
local function oldest_first(limit, passed_over)
  local waiting = {}
  for _, queue in ipairs(queues) do
    for _, place in ipairs(redis.call('ZRANGE', queue, '-', '+', 'BYLEX', 'LIMIT', 0, limit)) do
      if not passed_over[place] then
        waiting[#waiting + 1] = { place = place, queue = queue }
      end
    end
  end
  table.sort(waiting, function(one, other)
    return precedes(one.place, other.place)
  end)
  return waiting
end

-- The lease, or nothing and whether the job stays where it is: somebody else's lock is on it.
local function lease_out(waiting)
  local job = string.sub(waiting.place, 17)
  local hash = key('wf:job', job)
  local found = redis.call('HMGET', hash, 'job', 'deadline_at', 'created_at', 'end_cause', 'fence', 'held')
  if not found[1] or found[4] or found[5] or found[6] then
    -- An entry for what is not to be had must neither be given out nor stand in the way.
    redis.call('ZREM', waiting.queue, waiting.place)
    return nil, false
  end
  local ttl = term
  if is_until_deadline and found[2] and found[2] ~= '' then
    -- A deadline that has just passed is the engine's to notice.
    ttl = math.max(tonumber(found[2]) - now, 1000)
  end
  local fence, expires_at = integer(mint_fence()), integer(now + ttl)
  if not take_job_lock(job, { worker, request, fence, expires_at }, ttl) then
    return nil, true
  end
  redis.call('ZREM', waiting.queue, waiting.place)
  redis.call('HSET', hash, 'worker', worker, 'fence', fence, 'ttl', integer(ttl), 'expires_at', expires_at,
    'claimed_at', integer(now), 'request', request)
  redis.call('ZADD', key('wf:leases'), expires_at, job)
  return { found[1], fence, integer(ttl), expires_at, integer(now), found[3] }, false
end

local claimed, bytes = {}, 0
-- Leases out what it can get, and how many it had to pass over.
local function lease_out_all(limit, passed_over)
  local passed = 0
  for _, waiting in ipairs(oldest_first(limit, passed_over)) do
    if #claimed >= jobs_max or bytes > answer_bytes_max then
      break
    end
    local leased, is_locked = lease_out(waiting)
    if is_locked then
      passed_over[waiting.place] = true
      passed = passed + 1
    else
      bytes = bytes + (leased and #leased[1] or 0)
      claimed[#claimed + 1] = leased
    end
  end
  return passed
end

local is_draining = is_on_http and see_worker()
read_topics()
if is_repeat then
  claimed = given_before()
end
if #claimed == 0 and not is_draining then
  -- Who was passed over stands in front of others that can be had; a bounded number of them is looked past.
  local passed_over, limit = {}, jobs_max
  while limit <= jobs_max + passed_over_max do
    local passed = lease_out_all(limit, passed_over)
    if passed == 0 then
      break
    end
    limit = limit + passed
  end
end
return { 'ok', claimed }
