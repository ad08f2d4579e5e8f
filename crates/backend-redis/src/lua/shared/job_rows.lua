-- needs: job_lock, queue, texts
-- Removes a job with all that names it, except its run's list.
local function remove_job(job)
  local found = read_fields(key('wf:job', job), 'topic', 'created_at', 'worker', 'request', 'fence', 'expires_at',
    'kind', 'moved')
  redis.call('ZREM', queue_key(found.topic, found.kind), queue_place(job, found.created_at, found.moved))
  redis.call('ZREM', key('wf:jobs'), sortable(tonumber(found.created_at)) .. '/' .. job)
  redis.call('ZREM', key('wf:leases'), job)
  redis.call('ZREM', key('wf:unclaimed'), job)
  redis.call('ZREM', key('wf:put_off'), job)
  redis.call('ZREM', key('wf:held'), job)
  if found.fence then
    release_job_lock(job, { found.worker, found.request, found.fence, found.expires_at })
  end
  redis.call('HDEL', key('wf:dead_letters'), job)
  redis.call('ZREM', key('wf:dead_letters:index'), job)
  redis.call('UNLINK', key('wf:job', job), text_key('job', job), text_key('outcome', job))
end

local function remove_approval(approval)
  redis.call('ZREM', key('wf:approvals:open'), approval)
  redis.call('UNLINK', key('wf:approval', approval))
end
