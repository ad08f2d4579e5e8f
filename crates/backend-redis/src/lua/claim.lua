-- needs: fence, order, job_lock, job_view, queue, quotas, texts
-- Gives waiting jobs to a worker, oldest first over all of its topics and all kinds that it is capable of,
-- each under a new lease with a larger fence.
local worker, jobs_max = call.worker, call.jobs_max
local passed_over_max = 1000

-- Names as a JSON list.
local function list_text(names)
  return #names == 0 and '[]' or cjson.encode(names)
end

-- A worker that claims ten times a second is written down once. Whether it drains.
local function see_worker()
  local hash = key('wf:worker', worker)
  local topics, capabilities = list_text(call.topics), list_text(call.capabilities)
  local topics_before, capabilities_before, last_seen_at, is_draining =
    unpack(redis.call('HMGET', hash, 'topics', 'capabilities', 'last_seen_at', 'is_draining'))
  if topics_before == topics and capabilities_before == capabilities and now - tonumber(last_seen_at) < 1000 then
    return is_draining == '1'
  end
  if not last_seen_at then
    local most = quota('workers_max', limits.workers_default)
    if redis.call('ZCARD', key('wf:workers')) >= most then
      return false, quota_reached('workers', most)
    end
  end
  redis.call('HSET', hash, 'topics', topics, 'capabilities', capabilities, 'last_seen_at', integer(now))
  redis.call('HSETNX', hash, 'first_seen_at', integer(now))
  redis.call('ZADD', key('wf:workers'), 0, worker)
  return is_draining == '1'
end

-- The leases that this very request was given when it was sent first.
local function leases_given_before()
  local given = {}
  for _, job in ipairs(redis.call('ZRANGE', key('wf:leases'), 0, -1)) do
    local held = redis.call('HMGET', key('wf:job', job), 'worker', 'request')
    if held[1] == worker and held[2] == request then
      local found = read_fields(key('wf:job', job), 'job', 'worker', 'fence', 'ttl', 'expires_at', 'claimed_at',
        'created_at', 'lease_deadline', 'edge')
      given[#given + 1] = { job = show_text(found.job, 'job', job), lease = lease_of(found), queued_at = found.created_at }
    end
  end
  table.sort(given, function(one, other)
    return tonumber(one.lease.fence) < tonumber(other.lease.fence)
  end)
  return given
end

local queues, bytes = {}, 0
-- The queues of a topic that hold what the worker is capable of. The mark of a kind goes when its queue is found empty.
local function read_queues(topic, is_capable)
  queues[#queues + 1] = queue_key(topic)
  if next(is_capable) == nil then
    return
  end
  for _, kind in ipairs(redis.call('ZRANGE', key('wf:kinds', topic), '-', '+', 'BYLEX', 'LIMIT', 0, limits.kinds_max)) do
    local fits = true
    for capability in string.gmatch(kind, '[^+]+') do
      fits = fits and is_capable[capability]
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
  local is_capable, known = {}, {}
  for _, capability in ipairs(call.capabilities) do
    is_capable[capability] = true
  end
  for _, topic in ipairs(call.topics) do
    if not known[topic] then
      known[topic] = true
      read_queues(topic, is_capable)
    end
  end
end

-- At most `limit` of each queue, without those that are not available.
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

-- The lease, or nothing and whether the job stays where it is: a foreign lock is on it.
local function lease_out(waiting)
  local job = string.sub(waiting.place, 17)
  local hash = key('wf:job', job)
  local document, deadline_at, timeout, queue_until, created_at, end_cause, held_fence, held = unpack(redis.call('HMGET',
    hash, 'job', 'deadline_at', 'timeout', 'queue_until', 'created_at', 'end_cause', 'fence', 'held'))
  if not document or end_cause or held_fence or held then
    -- An entry for a job that is not available must neither be given out nor stand in the way.
    redis.call('ZREM', waiting.queue, waiting.place)
    return nil, false
  end
  deadline_at = deadline_of(deadline_at, timeout)
  local ttl = lease_ttl(call.term, deadline_at)
  local fence, expires_at = integer(mint_fence()), integer(now + ttl)
  if not take_job_lock(job, { worker, request, fence, expires_at }, ttl) then
    return nil, true
  end
  redis.call('ZREM', waiting.queue, waiting.place)
  redis.call('HSET', hash, 'worker', worker, 'fence', fence, 'ttl', integer(ttl), 'expires_at', expires_at,
    'claimed_at', integer(now), 'request', request, 'edge', call.edge)
  redis.call('ZADD', key('wf:leases'), expires_at, job)
  if deadline_at then
    redis.call('HSET', hash, 'lease_deadline', integer(deadline_at))
  end
  if queue_until then
    redis.call('ZREM', key('wf:unclaimed'), job)
  end
  local lease = { worker = worker, fence = fence, ttl = ttl, expires_at = expires_at, claimed_at = now,
    deadline_at = deadline_at, edge = call.edge }
  local shown, document_bytes = show_text(document, 'job', job)
  bytes = bytes + document_bytes
  return { job = shown, lease = lease, queued_at = created_at }, false
end

local claimed = {}
-- Leases out what is available, and how many it had to pass over.
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
      claimed[#claimed + 1] = leased
    end
  end
  return passed
end

local is_draining, refusal = false, nil
if call.edge == 'http' then
  is_draining, refusal = see_worker()
end
if refusal then
  return refusal
end
read_topics()
if is_repeat then
  claimed = leases_given_before()
end
if #claimed == 0 and not is_draining then
  -- Those that were passed over stand before others that are available; a bounded number of them is skipped.
  local passed_over, limit = {}, jobs_max
  while limit <= jobs_max + passed_over_max do
    local passed = lease_out_all(limit, passed_over)
    if passed == 0 then
      break
    end
    limit = limit + passed
  end
end
return answer(claimed)
