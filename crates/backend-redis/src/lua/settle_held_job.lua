-- needs: failures, inbox, jobs
-- Does with a held job what was decided. The first decision that ends the hold counts.
local job, run = call.job, run_of(call.job)
local hash = key('wf:job', job)
local before = read_fields(hash, 'held', 'held_since', 'held_until', 'place', 'settled_request', 'settled_as',
  'settled_until')
if is_repeat and before.settled_request == request then
  -- It was done, and only its answer was lost.
  return answer({ outcome = before.settled_as, value = before.settled_until })
end
if not before.held or before.held == 'approval' or before.held == 'budget_approval' then
  return answer({ outcome = 'not_held' })
end

local is_of_budget = string.sub(before.held, 1, 7) == 'budget_'

local function append_event(event)
  redis.call('RPUSH', key('wf:timeline', run), at_time(event, now))
end

local function release()
  unhold(job)
  release_job(job)
  if call.released then
    append_event(call.released)
  end
  return 'released', ''
end

local function wait(reason, until_time)
  if reason ~= before.held then
    append_event(call.event)
  end
  write_hold(job, reason, call.detail, until_time)
  return 'waiting', integer(until_time)
end

-- Counts one more dispatch of the rule. If the period is full: when one with room begins.
local function count(dispatches, period)
  local throttle = key('wf:throttle', call.rule)
  local known = read_fields(throttle, 'began', 'count', 'refused')
  local began, so_far, refused = now, 0, 0
  if known.began and now < tonumber(known.began) + period then
    began, so_far, refused = tonumber(known.began), tonumber(known.count), tonumber(known.refused or 0)
  end
  local next_period
  if so_far < dispatches then
    so_far = so_far + 1
  else
    -- Each period has room for `dispatches`: those that wait are spread over the periods to come.
    next_period = began + period * (1 + math.floor(refused / dispatches))
    refused = refused + 1
  end
  redis.call('HSET', throttle, 'began', integer(began), 'count', integer(so_far), 'refused', integer(refused))
  -- By the server's own clock, which may be another; what has expired is not counted anyway.
  redis.call('PEXPIRE', throttle, integer(period * 2 + 60000))
  return next_period
end

local decisions = { release = release }

function decisions.release_within()
  local next_period = count(call.dispatches, call.period)
  if next_period then
    return wait('policy_throttled', next_period)
  end
  return release()
end

function decisions.deny()
  end_job(job, 'denied')
  post_outcome(job, call.outcome)
  return 'denied', ''
end

function decisions.wait()
  local until_time = now + call.wait
  if call.acquired_until and tonumber(before.held_until) < call.acquired_until then
    -- Something was freed since the caller looked.
    until_time = tonumber(before.held_until)
  end
  if before.place and not call.is_of_budget then
    leave_budget(job)
  end
  return wait(call.reason, until_time)
end

function decisions.ask()
  open_approval(run, call.approval)
  if before.place then
    leave_budget(job)
  end
  write_hold(job, is_of_budget and 'budget_approval' or 'approval', call.detail, nil)
  post(run, call.event)
  return 'asked', ''
end

-- Writes down where the job waits, which found too little left.
local function wait_for_budget(name, place)
  if before.place and before.place ~= place then
    leave_budget(job)
  end
  redis.call('ZADD', key('wf:budget:queue', name), 0, place)
  redis.call('HSET', hash, 'place', place)
end

-- Reserves for the job, and only then lets it go. An approval lets it go with what is left.
function decisions.reserve()
  -- needs: budgets, reserving
  local budget, amount = unpack(redis.call('HMGET', hash, 'budget', 'reserve'))
  if not is_of_budget or budget ~= call.name then
    return 'not_held', ''
  end
  if not read_budget(call.name) then
    return 'no_budget', ''
  end
  call.amount = tonumber(amount)
  local is_approved = before.held == 'budget_approved'
  call.least = is_approved and 0 or call.amount
  if call.is_queued and not is_approved then
    local since = before.place and string.match(before.place, '/([^/]*)/') or sortable(before.held_since)
    call.place = call.group .. '/' .. since .. '/' .. job
  end
  local reserved = reserve_now(call.name, call)
  if reserved.outcome ~= 'granted' then
    if call.place and reserved.outcome == 'exhausted' then
      wait_for_budget(call.name, call.place)
    end
    return 'not_reserved', reserved
  end
  redis.call('HSET', hash, 'permit', call.permit)
  return release()
end

return guarded(function()
  local outcome, until_time = decisions[call.decision]()
  if outcome == 'no_budget' then
    return answer({ refused = 'no_budget', name = call.name })
  elseif outcome == 'not_reserved' or outcome == 'not_held' then
    return answer({ outcome = outcome, value = until_time })
  end
  redis.call('HSET', hash, 'settled_request', request, 'settled_as', outcome, 'settled_until', until_time)
  return answer({ outcome = outcome, value = until_time })
end)
