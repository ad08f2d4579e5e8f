-- needs: inbox, jobs
-- Ends an open job on an operator's request. Answers how it ended, now or before.
local found = read_fields(key('wf:job', call.job), 'created_at', 'end_cause')
if not found.created_at then
  return missing()
end
if found.end_cause then
  return answer({ cause = found.end_cause })
end
end_job(call.job, 'cancelled')
post(call.run, outcome_now(call.event))
return answer({ cause = 'cancelled' })
