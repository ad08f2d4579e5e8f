-- Records a verdict and puts it into the run's inbox. The first verdict counts.
local job, run, verdict, state, event = argument(), argument(), argument(), argument(), argument()
local hash = key('wf:approval', job)
local found = redis.call('HMGET', hash, 'verdict', 'state')
if not found[1] then
  return { 'missing' }
end
if found[1] == verdict then
  return { 'ok', 'already' }
end
if found[1] ~= 'open' then
  return { 'ok', 'otherwise', found[2] }
end
-- A dispatch that waits for this verdict goes to its queue, or ends, with it.
local is_held = redis.call('HEXISTS', key('wf:job', job), 'held') == 1
if is_held and verdict == 'approved' then
  unhold(job)
  enqueue(job)
elseif is_held then
  end_job(job, 'denied')
end
redis.call('HSET', hash, 'state', state, 'verdict', verdict)
redis.call('ZREM', key('wf:approvals:open'), job)
post(run, event)
return { 'ok', 'recorded' }
