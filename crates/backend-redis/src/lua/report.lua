-- Ends a job and puts its outcome into the run's inbox. The same result again is nothing new.
local job, run, fence, cause, event = argument(), argument(), number(), argument(), argument()
local word, found = standing(job, fence)
if not word then
  return found
end
if word == 'ended' then
  if found.cause == cause then
    return { 'ok', 'already' }
  end
  return { 'fenced', found.fence }
end
end_job(job, cause)
post(run, told_now(event))
return { 'ok', 'recorded' }
