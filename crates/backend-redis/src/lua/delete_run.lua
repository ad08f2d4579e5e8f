-- needs: run_lock, quarantine, slots, jobs, job_rows, run_texts, children, events
-- Removes a run with everything of it but its idempotency key. A live one ends in the same step.
local run = call.run
local hash = key('wf:run', run)
if redis.call('EXISTS', hash) == 0 then
  if is_repeat and redis.call('SISMEMBER', key('wf:runs:deleted'), run) == 1 then
    return answer(redis.call('SMEMBERS', key('wf:run:jobs:deleted', run)))
  end
  return missing()
end
for _, child in ipairs(redis.call('SMEMBERS', key('wf:run:children', run))) do
  give_up_child(run, child, call.cancel)
end
local found = read_fields(hash, 'parent', 'parent_step', 'status')
if found.parent and not final[found.status] then
  report_child(found.parent, run, '{"child":{"step":"' .. found.parent_step .. '","child":"' .. run .. '","outcome":'
    .. call.deleted .. '}}')
end
release_slots(run, unpack(redis.call('HMGET', hash, 'claims', 'waiting')))
-- A start whose reply was lost must not bring the run back.
redis.call('SADD', key('wf:runs:deleted'), run)
redis.call('ZREM', key('wf:runs'), run)
redis.call('ZREM', key('wf:ready'), run)
redis.call('ZREM', key('wf:timers'), run)
local lease = redis.call('HGET', hash, 'lease')
if lease then
  release_lock(run, tonumber(lease))
end

remove_quarantine_letter(run)
local jobs = redis.call('SMEMBERS', key('wf:run:jobs', run))
for _, job in ipairs(jobs) do
  local ended, fence, permit, budget, place = unpack(redis.call('HMGET', key('wf:job', job), 'end_cause', 'fence', 'permit',
    'budget', 'place'))
  if place then
    leave_budget(job)
  end
  if permit and not ended then
    end_reservation(permit, budget, fence, nil)
  end
  remove_job(job)
end
for _, approval in ipairs(redis.call('SMEMBERS', key('wf:run:approvals', run))) do
  remove_approval(approval)
end
drop_texts_of(run, '-inf', '+inf')
end_waits(run)
redis.call('UNLINK', hash, key('wf:start', run), key('wf:steps', run), key('wf:inbox', run),
  key('wf:timeline', run), key('wf:run:approvals', run), key('wf:run:children', run), key('wf:run:events', run))
if #jobs > 0 then
  -- For a caller whose answer was lost, and who must still remove what these jobs left elsewhere.
  redis.call('RENAME', key('wf:run:jobs', run), key('wf:run:jobs:deleted', run))
  redis.call('PEXPIRE', key('wf:run:jobs:deleted', run), 60000)
end
return answer(jobs)
