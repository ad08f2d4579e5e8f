-- needs: inbox, jobs, lease_check, acquire, contradiction
-- Ends a job, posts its outcome to the run's inbox and acquires the run. Does nothing if another instance holds it.
local job, run = call.job, call.run
local state, found = check_lease(job, call.fence)
if not state then
  return found
end
if state == 'ended' then
  if found.cause ~= call.cause then
    return fenced(found.fence)
  end
  local _, fence_given = is_free(run)
  if fence_given then
    -- This very request has recorded it, and only its answer was lost.
    return answer({ outcome = 'recorded', now = now, run = acquire(run) })
  end
  return answer({ outcome = 'already' })
end
local refusal = contradicts(job, call.cause)
if refusal then
  return refusal
end
if not is_free(run) then
  return answer({ outcome = 'busy' })
end
if redis.call('EXISTS', key('wf:run', run)) == 0 then
  return missing()
end
end_job(job, call.cause)
post(run, outcome_now(call.event))
return answer({ outcome = 'recorded', now = now, run = acquire(run) })
