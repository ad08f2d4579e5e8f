-- needs: lease_check
-- Writes how far a worker is into the run's timeline.
local hash = key('wf:job', call.job)
if is_repeat and redis.call('HGET', hash, 'progress_request') == request then
  return answer()
end
local state, found = check_lease(call.job, call.fence)
if not state then
  return found
end
if state == 'ended' then
  return fenced(found.fence)
end
redis.call('RPUSH', key('wf:timeline', run_of(call.job)), at_time(call.event, now))
redis.call('HSET', hash, 'progress_request', request)
return answer()
