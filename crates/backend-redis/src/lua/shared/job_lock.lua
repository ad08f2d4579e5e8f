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

-- How long a lease of a job lasts from now: its term, or until the job times out.
local function lease_ttl(term, deadline_at)
  if term.until_deadline and deadline_at and deadline_at ~= '' then
    -- The engine notices a deadline that has just passed.
    return math.max(tonumber(deadline_at) - now, 1000)
  end
  return term['for'] or term.until_deadline.otherwise
end
