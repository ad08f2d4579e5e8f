-- needs: inbox, jobs, lease_check
-- Ends a job and posts its outcome to the run's inbox.
local lease, reply = check_result(call.job, call.fence, call.cause)
if not lease then
  return reply
end
end_job(call.job, call.cause)
post(call.run, outcome_now(call.event))
return answer({ outcome = 'recorded' })
