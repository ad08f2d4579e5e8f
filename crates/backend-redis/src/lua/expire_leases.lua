-- needs: given, losses
-- Ends the jobs whose lease has expired, and those that no worker has claimed in time.
local lost = given_before('losses')
if not lost then
  lost = lose(redis.call('ZRANGEBYSCORE', key('wf:leases'), '-inf', integer(now), 'LIMIT', 0, call.limit))
  give_up(redis.call('ZRANGEBYSCORE', key('wf:unclaimed'), '-inf', integer(now), 'LIMIT', 0, call.limit), lost)
  remember_given('losses', lost)
end
return answer(lost)
