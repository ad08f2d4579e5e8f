-- The held jobs that are due, which are then in hand for a while.
local ahead, in_hand, limit = number(), number(), argument()
local jobs = given_before('held')
if not jobs then
  jobs = redis.call('ZRANGEBYSCORE', key('wf:held'), '-inf', integer(now + ahead), 'LIMIT', 0, limit)
  remember_given('held', jobs)
end
local taken, bytes = {}, 0
for _, job in ipairs(jobs) do
  -- What does not fit into the answer is due as before.
  if bytes > answer_bytes_max then
    break
  end
  local hash = key('wf:job', job)
  local found = redis.call('HMGET', hash, 'job', 'held', 'held_detail', 'held_since', 'held_looks')
  if found[1] and found[2] and found[2] ~= 'approval' then
    bytes = bytes + #found[1]
    found[6] = integer(now + in_hand)
    redis.call('ZADD', key('wf:held'), found[6], job)
    redis.call('HSET', hash, 'held_until', found[6])
    taken[#taken + 1] = found
  else
    redis.call('ZREM', key('wf:held'), job)
  end
end
return { 'ok', integer(now), taken }
