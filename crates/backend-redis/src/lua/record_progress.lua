-- needs: lease_check
-- Writes how far a worker is into the run's timeline. What is reported within a period replaces what was reported before,
-- so that a talkative worker does not fill the timeline.
local period_ms = 1000
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
local timeline = key('wf:timeline', run_of(call.job))
local row, since = unpack(redis.call('HMGET', hash, 'progress_row', 'progress_since'))
if row and now < tonumber(since) + period_ms and tonumber(row) < redis.call('LLEN', timeline) then
  redis.call('LSET', timeline, row, at_time(call.event, since))
elseif redis.call('LLEN', timeline) < limits.progress_rows_max then
  row, since = redis.call('RPUSH', timeline, at_time(call.event, now)) - 1, now
elseif row then
  since = now
  redis.call('LSET', timeline, row, at_time(call.event, now))
else
  return answer()
end
redis.call('HSET', hash, 'progress_request', request, 'progress_row', integer(row), 'progress_since', integer(since))
return answer()
