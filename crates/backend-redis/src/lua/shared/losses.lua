-- Ends jobs whose worker was not heard of, and tells their runs. A result that waits for another delivery is not lost.
-- Those that were lost.
local function lose(jobs)
  local lost = {}
  for _, job in ipairs(jobs) do
    local waiting = redis.call('HMGET', key('wf:job', job), 'put_off_cause', 'put_off')
    if end_job(job, waiting[1] or 'lost') then
      -- An id needs no escaping, and its run stands before the first colon.
      post(string.match(job, '^[^:]+'), told_now(waiting[2] or ',"job":"' .. job .. '","outcome":"lost"}}'))
      lost[#lost + 1] = job
    else
      -- A lease of nothing would be found again and again, in the way of those that have run out.
      redis.call('ZREM', key('wf:leases'), job)
    end
  end
  remember_given('losses', lost)
  return lost
end
