-- Ends a job and puts its outcome into the run's inbox.
local job, run, fence, cause, event = argument(), argument(), number(), argument(), argument()
local lease, answer = undecided(job, fence, cause)
if not lease then
  return answer
end
end_job(job, cause)
post(run, told_now(event))
return { 'ok', 'recorded' }
