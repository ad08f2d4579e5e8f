-- The results that are due, which are then in hand for a while.
local limit, in_hand = argument(), number()
local tenant = key('wf:tenant')

-- What this very request was given before: its answer went astray.
local function given_before()
  local last = redis.call('HMGET', tenant, 'put_off_request', 'put_off_given')
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
  jobs = redis.call('ZRANGEBYSCORE', key('wf:put_off'), '-inf', integer(now), 'LIMIT', 0, limit)
  if #jobs > 0 then
    redis.call('HSET', tenant, 'put_off_request', request, 'put_off_given', table.concat(jobs, ' '))
  end
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
