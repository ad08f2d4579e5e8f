-- Extends a lease. A worker that is too busy to claim is seen by this.
local job, fence = argument(), number()
local word, found = standing(job, fence)
if not word then
  return found
end
if word == 'ended' then
  if found.cause == 'revoked' or found.cause == 'cancelled' then
    return { 'ok' }
  end
  return { 'fenced', found.fence }
end
local expires_at = integer(now + found.ttl)
redis.call('HSET', key('wf:job', job), 'expires_at', expires_at)
redis.call('ZADD', key('wf:leases'), expires_at, job)
local seen_at = redis.call('HGET', key('wf:worker', found.worker), 'last_seen_at')
if seen_at and now - tonumber(seen_at) >= 1000 then
  redis.call('HSET', key('wf:worker', found.worker), 'last_seen_at', integer(now))
end
return { 'ok', integer(found.ttl), expires_at }
