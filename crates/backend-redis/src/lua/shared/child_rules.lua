-- needs: inbox, children, inspection
-- What must be true of children, and of the steps that wait for them.
--
-- The child that a step waits for, or nothing.
local function awaited_child(document)
  -- Most steps wait for none: the text alone tells.
  if not document or not string.find(document, '"child_open":true', 1, true) then
    return nil
  end
  local step = cjson.decode(document)
  return step.child_open == true and step.child or nil
end

-- Whether an event in the inbox of a run begins so.
local function has_event(run, beginning)
  for _, event in ipairs(look('LRANGE', key('wf:inbox', run), 0, -1) or {}) do
    if string.sub(event, 1, #beginning) == beginning then
      return true
    end
  end
  return false
end

local function step_document(run, step)
  return look_at_text(redis.call('HGET', key('wf:steps', run), step), 'step', run .. ':' .. step)
end

-- The run that waits for the child, and the name of its step.
local function waiting_step(child)
  local parent, step = unpack(redis.call('HMGET', key('wf:run', child), 'parent', 'parent_step'))
  return parent, step
end

rules.child_without_step = { {
  over = over_ordered('wf:runs'),
  finds = function(child)
    local found = look('HMGET', key('wf:run', child), 'parent', 'cancel')
    return found and found[1] and not found[2] and state_of_run(child) == 'live'
      and look('SISMEMBER', key('wf:run:children', found[1]), child) == 0 and not has_event(child, '{"cancel":')
      and 'the child is live, no step waits for it, and it is not cancelled'
  end,
  repairs = function(child)
    local parent, step = waiting_step(child)
    if state_of_run(parent) == 'live' and awaited_child(step_document(parent, step)) == child then
      redis.call('SADD', key('wf:run:children', parent), child)
    else
      give_up_child(parent, child, '{"cancel":{"by":"its parent run ' .. parent .. '"}}')
    end
  end,
} }

-- `<run>/<child>` for each step that waits.
local over_awaited_children = over_runs(function(run, place, limit)
  if state_of_run(run) ~= 'live' then
    return {}, nil
  end
  local reply = look('HSCAN', key('wf:steps', run), place == '' and '0' or place, 'COUNT', limit)
  if not reply then
    return {}, nil
  end
  local found = {}
  for index = 2, #reply[2], 2 do
    local step = look_at_text(reply[2][index], 'step', run .. ':' .. reply[2][index - 1])
    local is_read, child = pcall(awaited_child, step)
    if is_read and child then
      found[#found + 1] = run .. '/' .. child
    end
  end
  return found, reply[1] ~= '0' and reply[1] or nil
end)

-- The step of a run that waits for this child. Only what is wrong is looked for.
local function step_of(run, child)
  local steps = redis.call('HGETALL', key('wf:steps', run))
  for index = 1, #steps, 2 do
    local is_read, found = pcall(awaited_child, look_at_text(steps[index + 1], 'step', run .. ':' .. steps[index]))
    if is_read and found == child then
      return steps[index]
    end
  end
  return nil
end

local function is_reported(run, step, child)
  return has_event(run, '{"child":{"step":"' .. step .. '","child":"' .. child .. '"')
end

rules.step_without_child = { {
  over = over_awaited_children,
  finds = function(subject)
    local run, child = string.match(subject, '^([^/]+)/([^/]+)$')
    if not run or state_of_run(run) ~= 'live' or look('HEXISTS', key('wf:children'), child) ~= 0 then
      return nil
    end
    local state = state_of_run(child)
    if state ~= 'ended' and state ~= 'gone' then
      return nil
    end
    local step = step_of(run, child)
    return step and not is_reported(run, step, child) and 'step ' .. step .. ' waits for child run ' .. child
      .. (state == 'gone' and ', which does not exist' or ', which has ended without a report')
  end,
  repairs = function(subject)
    local run, child = string.match(subject, '^([^/]+)/([^/]+)$')
    redis.call('SREM', key('wf:run:children', run), child)
    post(run, '{"child":{"step":"' .. step_of(run, child) .. '","child":"' .. child
      .. '","outcome":{"refused":{"code":"child_failed","message":"the child was lost","retryable":true}}}}')
  end,
} }

rules.child_start_not_due = { {
  over = function(after, limit)
    return scanned('HSCAN', key('wf:children'), after, limit, 2)
  end,
  finds = function(child)
    return look('HEXISTS', key('wf:children'), child) == 1 and is_scored('wf:children:due', child) == false
      and 'the child is to be started and in no index'
  end,
  repairs = function(child)
    redis.call('ZADD', key('wf:children:due'), integer(now), child)
  end,
} }
