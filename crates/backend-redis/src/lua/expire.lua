-- Ends the jobs whose lease has run out.
local limit = argument()
local lost = given_before('losses')
if not lost then
  lost = lose(redis.call('ZRANGEBYSCORE', key('wf:leases'), '-inf', integer(now), 'LIMIT', 0, limit))
end
return { 'ok', lost }
