-- What a run must take into account waits in a list. Its first entry has the number `inbox_base` + 1.
--
-- The outcome of a job as an event of the inbox, without the time at which the store records it. An id needs no escaping.
local function event_before_outcome(job)
  return ',"job":"' .. job .. '","outcome":'
end

local function event_without_time(job, outcome)
  return event_before_outcome(job) .. outcome .. '}}'
end

local function event_now(event)
  return '{"job":{"at":' .. integer(now) .. event
end

local function post(run, event)
  redis.call('RPUSH', key('wf:inbox', run), event)
  redis.call('ZADD', key('wf:ready'), 0, run)
end

local function post_outcome(job, outcome)
  post(run_of(job), event_now(event_without_time(job, outcome)))
end
