-- needs: groups, grants
-- Turns timers that are due, or will be soon, into ready marks, and grants the slots whose time has come. Those are never
-- granted ahead of it.
local due = redis.call('ZRANGEBYSCORE', key('wf:timers'), '-inf', integer(now + call.ahead), 'LIMIT', 0, call.limit)
for _, run in ipairs(due) do
  redis.call('ZREM', key('wf:timers'), run)
  redis.call('ZADD', key('wf:ready'), 0, run)
end
local timers = key('wf:limit:timers')
local to_grant = redis.call('ZRANGEBYSCORE', timers, '-inf', integer(now), 'LIMIT', 0, call.limit)
for _, member in ipairs(to_grant) do
  redis.call('ZREM', timers, member)
  fire_limit_timer(member)
end
write_groups()
return answer(#due + #to_grant)
