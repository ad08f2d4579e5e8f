-- Ends a job, puts its outcome into the run's inbox and takes the run; if somebody holds the run, does nothing.
local job, run, fence, cause, event = argument(), argument(), number(), argument(), argument()
read_taker()
local word, found = standing(job, fence)
if not word then
  return found
end
if word == 'ended' then
  if found.cause ~= cause then
    return { 'fenced', found.fence }
  end
  local _, given_before = is_free(run)
  if given_before then
    -- This very request has recorded it, and only its answer was lost.
    return { 'ok', 'recorded', integer(now), take(run) }
  end
  return { 'ok', 'already' }
end
local refusal = contradicts(job, cause)
if refusal then
  return refusal
end
if not is_free(run) then
  return { 'ok', 'busy' }
end
if redis.call('EXISTS', key('wf:run', run)) == 0 then
  return { 'missing' }
end
end_job(job, cause)
post(run, told_now(event))
return { 'ok', 'recorded', integer(now), take(run) }
