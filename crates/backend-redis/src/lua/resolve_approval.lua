-- needs: inbox, jobs
-- Records a verdict and posts it to the run's inbox. The first verdict counts.
local job, verdict = call.job, call.verdict
local hash = key('wf:approval', job)
local found = read_fields(hash, 'verdict', 'state')
if not found.verdict then
  return missing()
end
if found.verdict == verdict then
  return answer({ outcome = 'already_so' })
end
if found.verdict ~= 'open' then
  return answer({ outcome = 'already_otherwise', value = found.state })
end
-- A dispatch that waits for this verdict goes to its queue, or ends, with it.
local held = redis.call('HGET', key('wf:job', job), 'held')
if held and verdict == 'approved' then
  unhold(job)
  release_job(job, held == 'budget_approval' and 'budget_approved')
elseif held then
  end_job(job, 'denied')
end
redis.call('HSET', hash, 'state', call.state, 'verdict', verdict)
redis.call('ZREM', key('wf:approvals:open'), job)
post(run_of(job), call.event)
return answer({ outcome = 'recorded' })
