-- needs: inbox, jobs, lease_check, acquire, contradiction
-- Ends a job, posts its outcome to the run's inbox and acquires the run. Does nothing if another instance holds it.
local job, run = call.job, run_of(call.job)
local state, found = check_lease(job, call.fence)
if not state then
  return found
end
if state == 'ended' then
  if not is_same_result(found, call.outcome) then
    return fenced(found.fence)
  end
  local _, fence_given = is_free(run)
  if fence_given then
    -- This very request has recorded it, and only its answer was lost.
    return answer({ outcome = 'recorded', value = acquire(run) })
  end
  return answer({ outcome = 'already_recorded' })
end
local refusal = refuse_edge(found, call.edge) or contradicts(job, call.outcome)
if refusal then
  return refusal
end
if not is_free(run) then
  return answer({ outcome = 'busy' })
end
local before = read_fields(key('wf:run', run), 'version', 'lease', 'tries', 'quarantined_at')
if not before.version then
  return missing()
end
end_job(job, call.outcome.cause, call.outcome.fingerprint, call.outcome.usage)
post_outcome(job, call.outcome.document)
if before.quarantined_at or abandoned(before) >= limits.suspect_from then
  return answer({ outcome = 'posted' })
end
return answer({ outcome = 'recorded', value = acquire(run) })
