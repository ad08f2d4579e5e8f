-- The answer to a call whose reply was lost: the repeated call gets the same, and is not done twice. Kept for as long as
-- a caller repeats.
local function remembered_key()
  return key('wf:limit:request', request)
end

local function answered_before()
  return is_repeat and redis.call('GET', remembered_key()) or nil
end

local function remember(reply)
  redis.call('SET', remembered_key(), reply, 'PX', 60000)
  return reply
end
