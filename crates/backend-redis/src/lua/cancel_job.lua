-- Ends an open job on an operator's word. How it ended, now or before.
local job, run, event = argument(), argument(), argument()
local found = redis.call('HMGET', key('wf:job', job), 'created_at', 'end_cause')
if not found[1] then
  return { 'missing' }
end
if found[2] then
  return { 'ok', found[2] }
end
end_job(job, 'cancelled')
post(run, told_now(event))
return { 'ok', 'cancelled' }
