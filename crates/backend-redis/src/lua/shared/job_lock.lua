-- needs: visible
-- The lock on a job, readable by GET. The lease in the job's own hash is the truth, and this shows it: what an operator
-- deletes is written again with the next heartbeat, a foreign value is neither changed nor deleted.
--
-- Acquires the lock for a lease that begins. Not if there is any value: each dispatch is a job of its own, so that the
-- value is foreign, and its writer does not want the job to be given out.
local function take_job_lock(job, lease, lasts)
  local name, value = lock_key('scheduler:job', job), lease_text(unpack(lease))
  if is_own_clock then
    return redis.call('SET', name, value, 'NX', 'PX', integer(math.max(lasts, 1)))
  end
  return redis.call('SET', name, value, 'NX')
end

local function extend_job_lock(job, before, after, lasts)
  local name = lock_key('scheduler:job', job)
  local value = redis.pcall('GET', name)
  if not value or value == lease_text(unpack(before)) then
    show(name, lease_text(unpack(after)), lasts)
  end
end

local function release_job_lock(job, lease)
  local name = lock_key('scheduler:job', job)
  if redis.pcall('GET', name) == lease_text(unpack(lease)) then
    redis.call('DEL', name)
  end
end

-- When an attempt that is claimed now times out: by its own time, or with its step or run.
local function deadline_of(deadline_at, timeout)
  deadline_at = deadline_at and tonumber(deadline_at) or nil
  if not timeout then
    return deadline_at
  end
  local own = now + tonumber(timeout)
  return deadline_at and math.min(deadline_at, own) or own
end

-- How long a lease of a job lasts from now: its term, and no longer than its attempt.
local function lease_ttl(term, deadline_at)
  local whole = term['for']
  if not deadline_at then
    return whole or term.until_deadline.otherwise
  end
  -- The engine notices a deadline that has just passed.
  local left = deadline_at > now and deadline_at - now or 1000
  return whole and math.min(whole, left) or left
end
