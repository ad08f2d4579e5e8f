-- Removes a run with everything of it but its idempotency key. A live one ends in the same step.
local run = argument()
local hash = key('wf:run', run)
if redis.call('EXISTS', hash) == 0 then
  if is_repeat and redis.call('SISMEMBER', key('wf:runs:deleted'), run) == 1 then
    return { 'ok', redis.call('SMEMBERS', key('wf:run:jobs:deleted', run)) }
  end
  return { 'missing' }
end
give_slot_back(run)
-- A start whose reply was lost must not bring the run back.
redis.call('SADD', key('wf:runs:deleted'), run)
redis.call('ZREM', key('wf:runs'), run)
redis.call('ZREM', key('wf:ready'), run)
redis.call('ZREM', key('wf:timers'), run)
local lease = redis.call('HGET', hash, 'lease')
if lease then
  release_lock(run, tonumber(lease))
end

local jobs = redis.call('SMEMBERS', key('wf:run:jobs', run))
for _, job in ipairs(jobs) do
  local found = redis.call('HMGET', key('wf:job', job), 'topic', 'created_at', 'worker', 'request', 'fence',
    'expires_at', 'kind', 'moved')
  redis.call('ZREM', queue_key(found[1], found[7]), queue_place(job, found[2], found[8]))
  redis.call('ZREM', key('wf:jobs'), sortable(tonumber(found[2])) .. '/' .. job)
  redis.call('ZREM', key('wf:leases'), job)
  redis.call('ZREM', key('wf:put_off'), job)
  redis.call('ZREM', key('wf:held'), job)
  if found[5] then
    release_job_lock(job, { found[3], found[4], found[5], found[6] })
  end
  redis.call('HDEL', key('wf:dead_letters'), job)
  redis.call('ZREM', key('wf:dead_letters:index'), job)
  redis.call('UNLINK', key('wf:job', job))
end
for _, approval in ipairs(redis.call('SMEMBERS', key('wf:run:approvals', run))) do
  redis.call('ZREM', key('wf:approvals:open'), approval)
  redis.call('UNLINK', key('wf:approval', approval))
end
redis.call('UNLINK', hash, key('wf:steps', run), key('wf:inbox', run), key('wf:timeline', run),
  key('wf:run:approvals', run))
if #jobs > 0 then
  -- For a caller whose answer was lost, and who must still remove what these jobs left elsewhere.
  redis.call('RENAME', key('wf:run:jobs', run), key('wf:run:jobs:deleted', run))
  redis.call('PEXPIRE', key('wf:run:jobs:deleted', run), 60000)
end
return { 'ok', jobs }
