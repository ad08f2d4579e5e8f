-- The held jobs that are due, which are then in hand for a while.
local ahead, in_hand, limit = number(), number(), argument()
local tenant = key('wf:tenant')

-- What this very request was given before: its answer went astray.
local function given_before()
  local last = redis.call('HMGET', tenant, 'held_request', 'held_given')
  if not is_repeat or last[1] ~= request then
    return nil
  end
  local given = {}
  for job in string.gmatch(last[2], '%S+') do
    given[#given + 1] = job
  end
  return given
end

local jobs = given_before()
if not jobs then
  jobs = redis.call('ZRANGEBYSCORE', key('wf:held'), '-inf', integer(now + ahead), 'LIMIT', 0, limit)
  if #jobs > 0 then
    redis.call('HSET', tenant, 'held_request', request, 'held_given', table.concat(jobs, ' '))
  end
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
