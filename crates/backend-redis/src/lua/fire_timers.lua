-- Turns timers that are due, or will be soon, into ready marks.
local due = redis.call('ZRANGEBYSCORE', key('wf:timers'), '-inf', integer(now + call.ahead), 'LIMIT', 0, call.limit)
for _, run in ipairs(due) do
  redis.call('ZREM', key('wf:timers'), run)
  redis.call('ZADD', key('wf:ready'), 0, run)
end
return answer(#due)
