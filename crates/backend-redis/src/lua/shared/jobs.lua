-- Writes a new job down, in no queue yet: id, topic, deadline (or empty), what it requires as one word (or empty), by how
-- much its priority moves it, and the job itself. Its id, topic, kind and by how much it is moved.
local function write_job(run)
  local job, topic, deadline, kind, moved, document =
    argument(), argument(), argument(), argument(), number(), argument()
  local hash = key('wf:job', job)
  redis.call('HSET', hash, 'job', document, 'topic', topic, 'created_at', integer(now), 'deadline_at', deadline)
  if kind ~= '' then
    redis.call('HSET', hash, 'kind', kind)
  end
  if moved ~= 0 then
    redis.call('HSET', hash, 'moved', integer(moved))
  end
  redis.call('ZADD', key('wf:jobs'), 0, sortable(now) .. '/' .. job)
  redis.call('SADD', key('wf:run:jobs', run), job)
  return job, topic, kind, moved
end

-- Puts a new job into the queue of its topic and kind.
local function dispatch(run)
  local job, topic, kind, moved = write_job(run)
  stand_in_line(job, now, topic, kind, moved)
end

-- Holds a job for a reason until then; for ever, if no time is given: a person is asked.
local function write_hold(job, reason, detail, until_time)
  local hash = key('wf:job', job)
  local before = redis.call('HMGET', hash, 'held', 'held_looks')
  if before[1] == reason then
    redis.call('HINCRBY', hash, 'held_looks', 1)
  else
    -- A job that was dispatched just now has not been looked at yet.
    redis.call('HSET', hash, 'held', reason, 'held_since', integer(now), 'held_looks', before[1] and '1' or '0')
  end
  redis.call('HSET', hash, 'held_detail', detail, 'held_until', until_time and integer(until_time) or '')
  if until_time then
    redis.call('ZADD', key('wf:held'), integer(until_time), job)
  else
    redis.call('ZREM', key('wf:held'), job)
  end
end

-- The job is held no more.
local function unhold(job)
  redis.call('ZREM', key('wf:held'), job)
  redis.call('HDEL', key('wf:job', job), 'held', 'held_detail', 'held_since', 'held_looks', 'held_until')
end

-- Writes a new job down, in no queue, due to be looked at: as for dispatch, and what is to be decided.
local function hold(run)
  local job = write_job(run)
  write_hold(job, 'policy_pending', argument(), now)
end

-- Withdraws the question that is asked under this job's id, if it is open.
local function withdraw_approval(job)
  if redis.call('HGET', key('wf:approval', job), 'verdict') == 'open' then
    redis.call('HSET', key('wf:approval', job), 'state', '"withdrawn"', 'verdict', 'withdrawn')
    redis.call('ZREM', key('wf:approvals:open'), job)
  end
end

-- Opens an approval: its job's id and the question.
local function open_approval(run)
  local job, document = argument(), argument()
  redis.call('HSET', key('wf:approval', job), 'approval', document, 'state', '"open"', 'verdict', 'open')
  redis.call('ZADD', key('wf:approvals:open'), 0, job)
  redis.call('SADD', key('wf:run:approvals', run), job)
end

-- Ends a job, if it is open: its fence is raised, so that its worker can write no more. Whether it was open.
local function end_job(job, cause)
  local hash = key('wf:job', job)
  local found = redis.call('HMGET', hash, 'created_at', 'end_cause', 'topic', 'fence', 'worker', 'request',
    'expires_at', 'put_off_since', 'held', 'kind', 'moved')
  if not found[1] or found[2] then
    return false
  end
  if found[8] then
    redis.call('ZREM', key('wf:put_off'), job)
    redis.call('HDEL', hash, 'put_off', 'put_off_cause', 'put_off_deliveries', 'put_off_since')
  end
  if found[9] then
    unhold(job)
    if found[9] == 'approval' then
      withdraw_approval(job)
    end
  end
  local fence = integer(mint_fence())
  if found[4] then
    redis.call('ZREM', key('wf:leases'), job)
    release_job_lock(job, { found[5], found[6], found[4], found[7] })
    redis.call('HDEL', hash, 'fence', 'worker', 'ttl', 'expires_at', 'claimed_at', 'request')
    redis.call('HSET', hash, 'end_cause', cause, 'end_at', integer(now), 'end_held', found[4], 'end_fence', fence,
      'end_worker', found[5])
  else
    redis.call('ZREM', queue_key(found[3], found[10]), queue_place(job, found[1], found[11]))
    redis.call('HSET', hash, 'end_cause', cause, 'end_at', integer(now), 'end_held', '0', 'end_fence', fence)
  end
  return true
end
