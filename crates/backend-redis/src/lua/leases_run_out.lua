-- The jobs whose lease has run out and that nobody has ended yet, each with its lease.
local found = {}
for index, job in ipairs(redis.call('ZRANGEBYSCORE', key('wf:leases'), '-inf', integer(now), 'LIMIT', 0, argument())) do
  local lease = redis.call('HMGET', key('wf:job', job), 'worker', 'fence', 'ttl', 'expires_at', 'claimed_at')
  found[index] = { job, lease[1], lease[2], lease[3], lease[4], lease[5] }
end
return { 'ok', found }
