-- The results that are due, which are then in hand for a while.
local limit, in_hand = argument(), number()
local jobs = given_before('put_off')
if not jobs then
  jobs = redis.call('ZRANGEBYSCORE', key('wf:put_off'), '-inf', integer(now), 'LIMIT', 0, limit)
  remember_given('put_off', jobs)
end
local results, bytes = {}, 0
for _, job in ipairs(jobs) do
  -- What does not fit into the answer is due as before.
  if bytes > answer_bytes_max then
    break
  end
  local found = redis.call('HMGET', key('wf:job', job), 'put_off', 'fence', 'put_off_deliveries', 'put_off_since')
  if found[1] then
    bytes = bytes + #found[1]
    redis.call('ZADD', key('wf:put_off'), integer(now + in_hand), job)
    results[#results + 1] = { job, found[2], told_at('0', found[1]), found[3],
      integer(math.max(now - tonumber(found[4]), 0)) }
  else
    redis.call('ZREM', key('wf:put_off'), job)
  end
end
return { 'ok', results }
