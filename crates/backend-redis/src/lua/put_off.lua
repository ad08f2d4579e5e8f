-- Keeps a result for another delivery. Asked again, or by the worker that has not heard the answer, the schedule goes on.
local job, fence, cause, event = argument(), number(), argument(), argument()
local deliveries, waited, delay, beyond = number(), number(), number(), number()
local lease, answer = undecided(job, fence, cause)
if not lease then
  return answer
end
local refusal = contradicts(job, cause)
if refusal then
  return refusal
end
local hash = key('wf:job', job)
if tonumber(redis.call('HGET', hash, 'put_off_deliveries') or '0') >= deliveries then
  return { 'ok', 'put_off' }
end
redis.call('HSET', hash, 'put_off', event, 'put_off_cause', cause, 'put_off_deliveries', integer(deliveries))
redis.call('HSETNX', hash, 'put_off_since', integer(now - waited))
redis.call('ZADD', key('wf:put_off'), integer(now + delay), job)
-- The worker has said all that it has to say, and is not heard of meanwhile.
local lasts = delay + beyond
if now + lasts > tonumber(lease.expires_at) then
  local expires_at = integer(now + lasts)
  redis.call('HSET', hash, 'expires_at', expires_at)
  redis.call('ZADD', key('wf:leases'), expires_at, job)
  local before = { lease.worker, lease.token, integer(fence), lease.expires_at }
  extend_job_lock(job, before, { lease.worker, lease.token, integer(fence), expires_at }, lasts)
end
return { 'ok', 'put_off' }
