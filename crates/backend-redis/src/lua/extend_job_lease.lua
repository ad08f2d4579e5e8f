-- needs: lease_check, job_lock
-- Extends a lease, for its own term or for another from now on. A worker that is too busy to claim is seen by this.
local job, fence = call.job, call.fence
local state, found = check_lease(job, fence)
if not state then
  return found
end
if state == 'ended' then
  if found.cause == 'revoked' or found.cause == 'cancelled' or found.cause == 'timed_out' then
    return answer({ outcome = 'cancel_requested' })
  end
  return fenced(found.fence)
end
local ttl = lease_ttl(call.term or { ['for'] = found.ttl }, found.deadline_at)
local lasts = ttl
if redis.call('HEXISTS', key('wf:job', job), 'put_off') == 1 then
  -- Its worker has sent its result; a last heartbeat must not shorten the time that the deferred result was given.
  lasts = math.max(ttl, tonumber(found.expires_at) - now)
end
local expires_at = integer(now + lasts)
redis.call('HSET', key('wf:job', job), 'ttl', integer(ttl), 'expires_at', expires_at)
redis.call('ZADD', key('wf:leases'), expires_at, job)
local lease = { found.worker, found.token, integer(fence), found.expires_at }
extend_job_lock(job, lease, { found.worker, found.token, integer(fence), expires_at }, lasts)
local seen_at = redis.call('HGET', key('wf:worker', found.worker), 'last_seen_at')
if seen_at and now - tonumber(seen_at) >= 1000 then
  redis.call('HSET', key('wf:worker', found.worker), 'last_seen_at', integer(now))
end
return answer({ outcome = 'extended', lease = ttl, expires_at = expires_at })
