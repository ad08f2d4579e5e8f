-- needs: inbox, jobs, given
-- Ends jobs whose worker is gone, and posts it to their runs. A deferred result is not lost. The jobs that were lost.
local function lose(jobs)
  local lost = {}
  for _, job in ipairs(jobs) do
    local waiting = redis.call('HMGET', key('wf:job', job), 'put_off_cause', 'put_off')
    if end_job(job, waiting[1] or 'lost') then
      -- An id needs no escaping, and its run stands before the first colon.
      post(string.match(job, '^[^:]+'), outcome_now(waiting[2] or ',"job":"' .. job .. '","outcome":"lost"}}'))
      lost[#lost + 1] = job
    else
      -- A lease of nothing would be found again and again, in the way of those that have run out.
      redis.call('ZREM', key('wf:leases'), job)
    end
  end
  remember_given('losses', lost)
  return lost
end
