-- needs: inbox, jobs, lease_check
-- Ends a job and posts its outcome to the run's inbox.
local lease, reply = check_result(call.job, call.fence, call.edge, call.outcome)
if not lease then
  return reply
end
end_job(call.job, call.outcome.cause, call.outcome.fingerprint, call.outcome.usage)
post_outcome(call.job, call.outcome.document)
return answer({ outcome = 'recorded' })
