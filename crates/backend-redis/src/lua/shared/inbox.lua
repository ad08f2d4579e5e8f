-- needs: run_texts
-- What a run must take into account waits in a list. Its first entry has the number `inbox_base` + 1.
--
-- The outcome of a job as an event of the inbox, without the time at which the store records it. An id needs no escaping.
local function event_before_outcome(job)
  return ',"job":"' .. job .. '","outcome":'
end

-- The event of a large outcome ends before that.
local function event_without_time(job, outcome)
  local text, is_large = keep_text(outcome, 'outcome', job)
  return event_before_outcome(job) .. (is_large and '' or text .. '}}')
end

-- Whose outcome should stand where the event ends.
local function outcome_after(event)
  return string.sub(event, -1) == ':' and string.match(event, '"([^"]+)","outcome":$') or nil
end

local function event_now(event)
  return '{"job":{"at":' .. integer(now) .. event
end

local function post(run, event)
  local waiting = redis.call('RPUSH', key('wf:inbox', run), event)
  local of = outcome_after(event)
  if of then
    local base = tonumber(redis.call('HGET', key('wf:run', run), 'inbox_base') or '0')
    list_text_of(run, 'outcome:' .. of, base + waiting)
  end
  redis.call('ZADD', key('wf:ready'), 0, run)
end

local function post_outcome(job, outcome)
  post(run_of(job), event_now(event_without_time(job, outcome)))
end
