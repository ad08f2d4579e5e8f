-- needs: inbox, jobs, job_view
-- Ends an open job on an operator's request. Answers with its state then.
local found = read_fields(key('wf:job', call.job), 'created_at', 'end_cause')
if not found.created_at then
  return missing()
end
if found.end_cause then
  return answer(state_of(found))
end
end_job(call.job, 'cancelled')
post_outcome(call.job, call.outcome)
return answer('cancelled')
