-- needs: job_view
-- The jobs whose lease has expired and that have not ended yet, each with its lease.
local leases = {}
for _, job in ipairs(redis.call('ZRANGEBYSCORE', key('wf:leases'), '-inf', integer(now), 'LIMIT', 0, call.limit)) do
  local lease = lease_of(read_fields(key('wf:job', job), 'worker', 'fence', 'ttl', 'expires_at', 'claimed_at',
    'lease_deadline', 'edge'))
  leases[#leases + 1] = lease and { job, lease }
end
return answer(leases)
