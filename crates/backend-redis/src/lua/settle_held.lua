-- Does with a held job what was decided. The first decision that ends the hold counts.
local job, run, decision = argument(), argument(), argument()
local hash = key('wf:job', job)
local before = redis.call('HMGET', hash, 'held', 'settled_request', 'settled_as', 'settled_until')
if is_repeat and before[2] == request then
  -- It was done, and only its answer was lost.
  return { 'ok', before[3], before[4] }
end
if not before[1] or before[1] == 'approval' then
  return { 'ok', 'not_held' }
end

local function tell(event)
  redis.call('RPUSH', key('wf:timeline', run), '{"at":' .. integer(now) .. event)
end

local function release(told)
  unhold(job)
  enqueue(job)
  if told ~= '' then
    tell(told)
  end
  return 'released', ''
end

local function wait(reason, detail, until_time, event)
  if reason ~= before[1] then
    tell(event)
  end
  write_hold(job, reason, detail, until_time)
  return 'waiting', integer(until_time)
end

-- Counts one more that the rule lets go. If it was enough in this period: when one with room begins.
local function count(rule, dispatches, period)
  local throttle = key('wf:throttle', rule)
  local released = redis.call('HMGET', throttle, 'began', 'count', 'refused')
  local began, so_far, refused = now, 0, 0
  if released[1] and now < tonumber(released[1]) + period then
    began, so_far, refused = tonumber(released[1]), tonumber(released[2]), tonumber(released[3] or 0)
  end
  local next_period
  if so_far < dispatches then
    so_far = so_far + 1
  else
    -- Each period has room for so many: those who wait are spread over the periods to come.
    next_period = began + period * (1 + math.floor(refused / dispatches))
    refused = refused + 1
  end
  redis.call('HSET', throttle, 'began', integer(began), 'count', integer(so_far), 'refused', integer(refused))
  -- By the server's own clock, which may be another; what has run out is not counted anyway.
  redis.call('PEXPIRE', throttle, integer(period * 2 + 60000))
  return next_period
end

local decisions = {}

function decisions.release()
  return release(argument())
end

function decisions.release_within()
  local told, rule, dispatches, period, detail, event = argument(), argument(), number(), number(), argument(), argument()
  local next_period = count(rule, dispatches, period)
  if next_period then
    return wait('policy_throttled', detail, next_period, event)
  end
  return release(told)
end

function decisions.deny()
  local event = argument()
  end_job(job, 'denied')
  post(run, told_now(event))
  return 'denied', ''
end

function decisions.wait()
  local reason, detail, time, event = argument(), argument(), number(), argument()
  return wait(reason, detail, now + time, event)
end

function decisions.ask()
  local detail, event = argument(), argument()
  open_approval(run)
  write_hold(job, 'approval', detail, nil)
  post(run, event)
  return 'asked', ''
end

local answer, until_time = decisions[decision]()
redis.call('HSET', hash, 'settled_request', request, 'settled_as', answer, 'settled_until', until_time)
return { 'ok', answer, until_time }
