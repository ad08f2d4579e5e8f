-- needs: fence, job_lock, queue, texts
-- Writes a new job down, in no queue yet.
local function write_job(run, new)
  local hash = key('wf:job', new.job)
  redis.call('HSET', hash, 'job', keep_text(new.document, 'job', new.job), 'topic', new.topic, 'created_at', integer(now),
    'deadline_at', new.deadline_at and integer(new.deadline_at) or '')
  if new.kind then
    redis.call('HSET', hash, 'kind', new.kind)
  end
  if new.timeout then
    redis.call('HSET', hash, 'timeout', integer(new.timeout))
  end
  if new.queue_until then
    redis.call('HSET', hash, 'queue_until', integer(new.queue_until))
    redis.call('ZADD', key('wf:unclaimed'), integer(new.queue_until), new.job)
  end
  if new.budget then
    redis.call('HSET', hash, 'budget', new.budget, 'reserve', integer(new.reserve))
  end
  if new.moved ~= 0 then
    redis.call('HSET', hash, 'moved', integer(new.moved))
  end
  redis.call('ZADD', key('wf:jobs'), 0, sortable(now) .. '/' .. new.job)
  redis.call('SADD', key('wf:run:jobs', run), new.job)
end

-- Puts a new job into the queue of its topic and kind.
local function dispatch(run, new)
  write_job(run, new)
  put_in_queue(new.job, now, new.topic, new.kind, new.moved)
end

-- Holds a job for a reason until a time; without one, until a person has decided.
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

-- The job waits for its budget no more. Those behind it are woken if there is enough for them.
local function leave_budget(job)
  -- needs: budgets
  local hash = key('wf:job', job)
  local name, place = unpack(redis.call('HMGET', hash, 'budget', 'place'))
  if place then
    redis.call('HDEL', hash, 'place')
    pcall(function()
      redis.call('ZREM', key('wf:budget:queue', name), place)
      local budget = read_budget(name)
      if budget then
        wake_group(budget, string.match(place, '^[^/]*'))
      end
    end)
  end
end

-- The job is held no more.
local function unhold(job)
  redis.call('ZREM', key('wf:held'), job)
  redis.call('HDEL', key('wf:job', job), 'held', 'held_detail', 'held_since', 'held_looks', 'held_until')
  if redis.call('HEXISTS', key('wf:job', job), 'place') == 1 then
    leave_budget(job)
  end
end

-- Writes a new job down, in no queue, to be decided about at once.
local function hold(run, new)
  write_job(run, new)
  write_hold(new.job, new.reason, new.detail, now)
end

-- Puts a job that was held into its queue. One that has to reserve first is held for that.
local function release_job(job, next_reason)
  local budget, permit, topic, kind, created_at, moved = unpack(redis.call('HMGET', key('wf:job', job), 'budget', 'permit',
    'topic', 'kind', 'created_at', 'moved'))
  local is_queued = redis.call('ZSCORE', queue_key(topic, kind), queue_place(job, created_at, moved))
  if budget and not permit and not is_queued then
    write_hold(job, next_reason or 'budget_pending', 'budget ' .. budget .. ' is to be asked', now)
    return false
  end
  return enqueue(job)
end

-- Counts what a job had reserved, which ends: what its worker says that it has spent; all of it, if a worker had it; or
-- nothing. A damaged budget does not keep a job from its end: the doctor finds its permit.
local function end_reservation(permit, name, was_claimed, usage)
  -- needs: budgets
  pcall(function()
    local budget = read_budget(name)
    local found = budget and read_permit(budget, permit)
    if not found or found.state ~= 'open' then
      return
    end
    forget_ended(budget, 8)
    local spent = usage and usage[name]
    end_permit(budget, found, spent and 'settled' or was_claimed and 'unsettled' or 'released', spent)
    save_budget(budget)
  end)
end

-- Withdraws the approval of this job, if it is open.
local function withdraw_approval(job)
  if redis.call('HGET', key('wf:approval', job), 'verdict') == 'open' then
    redis.call('HSET', key('wf:approval', job), 'state', '"withdrawn"', 'verdict', 'withdrawn')
    redis.call('ZREM', key('wf:approvals:open'), job)
  end
end

local function open_approval(run, new)
  redis.call('HSET', key('wf:approval', new.key), 'approval', new.document, 'state', '"open"', 'verdict', 'open')
  redis.call('ZADD', key('wf:approvals:open'), 0, new.key)
  redis.call('SADD', key('wf:run:approvals', run), new.key)
end

-- Ends a job, if it is open: its fence is raised, so that its worker can write no more. Whether it was open. `result` is
-- the fingerprint of a worker's result, to know it again; `usage` is what it has spent, by budget.
local function end_job(job, cause, result, usage)
  local hash = key('wf:job', job)
  local created_at, end_cause, topic, held_fence, worker, token, expires_at, deferred_since, held, kind, moved, permit,
    budget, queue_until = unpack(redis.call('HMGET', hash, 'created_at', 'end_cause', 'topic', 'fence', 'worker', 'request',
      'expires_at', 'put_off_since', 'held', 'kind', 'moved', 'permit', 'budget', 'queue_until'))
  if not created_at or end_cause then
    return false
  end
  if deferred_since then
    redis.call('ZREM', key('wf:put_off'), job)
    redis.call('HDEL', hash, 'put_off', 'put_off_cause', 'put_off_result', 'put_off_deliveries', 'put_off_since',
      'put_off_usage')
  end
  if held then
    unhold(job)
    if held == 'approval' or held == 'budget_approval' then
      withdraw_approval(job)
    end
  end
  if permit then
    end_reservation(permit, budget, held_fence, usage)
  end
  local fence = integer(mint_fence())
  if held_fence then
    redis.call('ZREM', key('wf:leases'), job)
    release_job_lock(job, { worker, token, held_fence, expires_at })
    redis.call('HDEL', hash, 'fence', 'worker', 'ttl', 'expires_at', 'claimed_at', 'request', 'edge', 'lease_deadline')
    redis.call('HSET', hash, 'end_cause', cause, 'end_at', integer(now), 'end_held', held_fence, 'end_fence', fence,
      'end_worker', worker)
  else
    redis.call('ZREM', queue_key(topic, kind), queue_place(job, created_at, moved))
    if queue_until then
      redis.call('ZREM', key('wf:unclaimed'), job)
    end
    redis.call('HSET', hash, 'end_cause', cause, 'end_at', integer(now), 'end_held', '0', 'end_fence', fence)
  end
  if result then
    redis.call('HSET', hash, 'end_result', result)
  end
  return true
end
