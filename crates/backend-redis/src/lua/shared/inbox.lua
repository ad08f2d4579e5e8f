-- What a run must take into account waits in a list. Its first entry has the number `inbox_base` + 1.
--
-- What became of a job comes without the time at which the store records it: that is put in here.
local function outcome_at(time, event)
  return '{"job":{"at":' .. time .. event
end

local function outcome_now(event)
  return outcome_at(integer(now), event)
end

local function post(run, event)
  redis.call('RPUSH', key('wf:inbox', run), event)
  redis.call('ZADD', key('wf:ready'), 0, run)
end
