-- needs: status, inbox, quarantine
-- Hands a dead letter to its run, if that is live: the letter leaves its list and waits in the run's inbox.
local job, run = call.job, run_of(call.job)
-- Where a repeat of this call is known by.
local mark = job == quarantine_letter(run) and key('wf:run', run) or key('wf:job', job)
local letter = redis.call('HGET', key('wf:dead_letters'), job)
if not letter then
  if is_repeat and redis.call('HGET', mark, 'retry_request') == request then
    return answer({ outcome = 'posted' })
  end
  return missing()
end
local status = redis.call('HGET', key('wf:run', run), 'status')
if not status then
  return answer({ outcome = 'run_gone' })
end
if final[status] then
  return answer({ outcome = 'run_ended' })
end
redis.call('HDEL', key('wf:dead_letters'), job)
redis.call('ZREM', key('wf:dead_letters:index'), job)
redis.call('HSET', mark, 'retry_request', request)
if job == quarantine_letter(run) then
  lift_quarantine(run)
  return answer({ outcome = 'posted' })
end
post(run, call.event_start .. letter .. '}}')
return answer({ outcome = 'posted' })
