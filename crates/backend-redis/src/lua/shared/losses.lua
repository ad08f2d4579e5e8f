-- needs: inbox, jobs, given
-- Ends jobs whose worker is offline, and posts it to their runs. A deferred result is not lost. The jobs that were lost.
local function lose(jobs)
  local lost = {}
  for _, job in ipairs(jobs) do
    local waiting = redis.call('HMGET', key('wf:job', job), 'put_off_cause', 'put_off', 'put_off_result',
      'put_off_usage')
    if end_job(job, waiting[1] or 'lost', waiting[3], waiting[4] and cmsgpack.unpack(waiting[4])) then
      post(run_of(job), event_now(waiting[2] or event_without_time(job, '"lost"')))
      lost[#lost + 1] = job
    else
      -- A lease of nothing would be found again and again, in the way of those that have expired.
      redis.call('ZREM', key('wf:leases'), job)
    end
  end
  remember_given('losses', lost)
  return lost
end
