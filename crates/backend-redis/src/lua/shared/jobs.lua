-- Puts a new job into the queue of its topic and kind: id, topic, deadline (or empty), what it requires as one word (or
-- empty), by how much its priority moves it, and the job itself.
local function dispatch(run)
  local job, topic, deadline, kind, moved, document =
    argument(), argument(), argument(), argument(), number(), argument()
  local hash = key('wf:job', job)
  redis.call('HSET', hash, 'job', document, 'topic', topic, 'created_at', integer(now), 'deadline_at', deadline)
  if kind ~= '' then
    redis.call('HSET', hash, 'kind', kind)
    redis.call('ZADD', key('wf:kinds', topic), 0, kind)
  end
  if moved ~= 0 then
    redis.call('HSET', hash, 'moved', integer(moved))
  end
  redis.call('ZADD', queue_key(topic, kind), 0, queue_place(job, now, moved))
  redis.call('ZADD', key('wf:jobs'), 0, sortable(now) .. '/' .. job)
  redis.call('SADD', key('wf:run:jobs', run), job)
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
    'expires_at', 'put_off_since', 'kind', 'moved')
  if not found[1] or found[2] then
    return false
  end
  if found[8] then
    redis.call('ZREM', key('wf:put_off'), job)
    redis.call('HDEL', hash, 'put_off', 'put_off_cause', 'put_off_deliveries', 'put_off_since')
  end
  local fence = integer(mint_fence())
  if found[4] then
    redis.call('ZREM', key('wf:leases'), job)
    release_job_lock(job, { found[5], found[6], found[4], found[7] })
    redis.call('HDEL', hash, 'fence', 'worker', 'ttl', 'expires_at', 'claimed_at', 'request')
    redis.call('HSET', hash, 'end_cause', cause, 'end_at', integer(now), 'end_held', found[4], 'end_fence', fence,
      'end_worker', found[5])
  else
    redis.call('ZREM', queue_key(found[3], found[9]), queue_place(job, found[1], found[10]))
    redis.call('HSET', hash, 'end_cause', cause, 'end_at', integer(now), 'end_held', '0', 'end_fence', fence)
  end
  return true
end
