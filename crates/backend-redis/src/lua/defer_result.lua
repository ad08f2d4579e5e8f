-- needs: inbox, lease_check, job_lock, contradiction
-- Keeps a result for another delivery. A repeated call, or one of the worker that did not get the answer, keeps the
-- schedule.
local job, fence = call.job, call.fence
local lease, reply = check_result(job, fence, call.edge, call.outcome)
if not lease then
  return reply
end
local refusal = contradicts(job, call.outcome)
if refusal then
  return refusal
end
local hash = key('wf:job', job)
if tonumber(redis.call('HGET', hash, 'put_off_deliveries') or '0') >= call.deliveries then
  return answer({ outcome = 'deferred' })
end
redis.call('HSET', hash, 'put_off', event_without_time(job, call.outcome.document),
  'put_off_cause', call.outcome.cause, 'put_off_deliveries', integer(call.deliveries))
if call.outcome.fingerprint then
  redis.call('HSET', hash, 'put_off_result', call.outcome.fingerprint)
end
if call.outcome.usage then
  redis.call('HSET', hash, 'put_off_usage', cmsgpack.pack(call.outcome.usage))
end
redis.call('HSETNX', hash, 'put_off_since', integer(now - call.waited))
redis.call('ZADD', key('wf:put_off'), integer(now + call.delay), job)
-- The worker has nothing more to send, and sends no heartbeats meanwhile.
local lasts = call.delay + call.lease
if now + lasts > tonumber(lease.expires_at) then
  local expires_at = integer(now + lasts)
  redis.call('HSET', hash, 'expires_at', expires_at)
  redis.call('ZADD', key('wf:leases'), expires_at, job)
  local before = { lease.worker, lease.token, integer(fence), lease.expires_at }
  extend_job_lock(job, before, { lease.worker, lease.token, integer(fence), expires_at }, lasts)
end
return answer({ outcome = 'deferred' })
