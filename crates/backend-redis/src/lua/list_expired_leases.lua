-- The jobs whose lease has expired and that have not ended yet, each with its lease.
local leases = {}
for index, job in ipairs(redis.call('ZRANGEBYSCORE', key('wf:leases'), '-inf', integer(now), 'LIMIT', 0, call.limit)) do
  leases[index] = read_fields(key('wf:job', job), 'worker', 'fence', 'ttl', 'expires_at', 'claimed_at')
  leases[index].job = job
end
return answer({ leases = leases })
