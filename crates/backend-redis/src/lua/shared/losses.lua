-- needs: inbox, jobs
-- What becomes of a job without another word of its worker: the lease may have lasted until the deadline, or not.
local function cause_without_result(deadline_at, expires_at)
  deadline_at = tonumber(deadline_at)
  local is_over = deadline_at and deadline_at <= now and deadline_at <= tonumber(expires_at)
  return is_over and 'timed_out' or 'lost'
end

-- Ends jobs that no worker has claimed in time, and posts it to their runs.
local function give_up(jobs, ended)
  for _, job in ipairs(jobs) do
    if end_job(job, 'timed_out') then
      post(run_of(job), event_now(event_without_time(job, '"unclaimed"')))
      ended[#ended + 1] = job
    else
      redis.call('ZREM', key('wf:unclaimed'), job)
    end
  end
end

-- Ends jobs whose worker is offline or has taken too long, and posts it to their runs. A deferred result is not lost. The
-- jobs that were lost.
local function lose(jobs)
  local lost = {}
  for _, job in ipairs(jobs) do
    local waiting = redis.call('HMGET', key('wf:job', job), 'put_off_cause', 'put_off', 'put_off_result',
      'put_off_usage', 'lease_deadline', 'expires_at')
    local cause = cause_without_result(waiting[5] or nil, waiting[6])
    if end_job(job, waiting[1] or cause, waiting[3], waiting[4] and cmsgpack.unpack(waiting[4])) then
      post(run_of(job), event_now(waiting[2] or event_without_time(job, '"' .. cause .. '"')))
      lost[#lost + 1] = job
    else
      -- A lease of nothing would be found again and again, in the way of those that have expired.
      redis.call('ZREM', key('wf:leases'), job)
    end
  end
  return lost
end
