-- needs: losses
-- Ends the jobs whose lease has expired.
local lost = given_before('losses')
if not lost then
  lost = lose(redis.call('ZRANGEBYSCORE', key('wf:leases'), '-inf', integer(now), 'LIMIT', 0, call.limit))
end
return answer(lost)
