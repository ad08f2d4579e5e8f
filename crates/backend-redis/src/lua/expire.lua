-- Ends the jobs whose lease has run out.
local limit = argument()
local lost = lost_before()
if not lost then
  lost = redis.call('ZRANGEBYSCORE', key('wf:leases'), '-inf', integer(now), 'LIMIT', 0, limit)
  lose(lost)
end
return { 'ok', lost }
