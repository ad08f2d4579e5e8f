-- needs: failures, ledger, status, budget_queue
-- Budgets. One hash has those of a tenant by name; each has its ledgers by `window/group` and their places in order, its
-- permits, what is due of it by when, its ended permits by when they are forgotten, the jobs that wait for it by
-- `group/since/job`, and what happened to it. A list names the budgets by when the first thing is due. Rows are packed: they
-- hold numbers that text would cut.
local budgets, first_due = key('wf:budgets'), key('wf:budgets:due')
-- The wall clock, which windows and increases follow.
local lead = call.wall_lead or 0
local wall = now + lead

local function read_row(hash, field)
  local text = redis.call('HGET', hash, field)
  return text and cmsgpack.unpack(text) or nil
end

local function write_row(hash, field, row)
  redis.call('HSET', hash, field, cmsgpack.pack(row))
end

local function read_budget(name)
  return read_row(budgets, name)
end

-- Writes the budget, and when the first thing of it is due.
local function save_budget(budget)
  write_row(budgets, budget.name, budget)
  local first = redis.call('ZRANGE', key('wf:budget:due', budget.name), 0, 0, 'WITHSCORES')[2]
  if first then
    redis.call('ZADD', first_due, first, budget.name)
  else
    redis.call('ZREM', first_due, budget.name)
  end
end

-- Removes everything of a budget but its row.
local function delete_parts(name)
  redis.call('UNLINK', key('wf:budget:ledgers', name), key('wf:budget:places', name), key('wf:budget:permits', name),
    key('wf:budget:due', name), key('wf:budget:ended', name), key('wf:budget:events', name), key('wf:budget:queue', name))
  redis.call('ZREM', first_due, name)
end

-- The limit of a group, as the model computes it.
local function amount_limit(budget, ledger, group)
  local limit = budget.amount
  for _, increase in ipairs(budget.increases) do
    if wall < increase['until'] and (not increase.group or increase.group == group) then
      limit = plus(limit, increase.delta)
    end
  end
  if ledger.adjusted < 0 then
    return minus(limit, -ledger.adjusted)
  end
  return plus(limit, ledger.adjusted)
end

local function read_ledger(name, place)
  return read_row(key('wf:budget:ledgers', name), place)
end

local function write_ledger(name, place, ledger)
  write_row(key('wf:budget:ledgers', name), place, ledger)
end

local function total_place(place)
  return string.match(place, '^[^/]*') .. '/*'
end

local function group_at(place)
  return string.match(place, '/(.*)$') or ''
end

-- A ledger beside what limits it.
local function ledger_state(budget, place)
  local ledger = read_ledger(budget.name, place) or new_ledger()
  local limit = amount_limit(budget, ledger, group_at(place))
  local remaining = minus(minus(minus(limit, ledger.spent), ledger.reserved), ledger.unsettled)
  return { ledger = ledger, limit = limit, remaining = remaining }
end

-- Makes the first jobs due that wait for an amount of which enough is left now.
local function wake_group(budget, group)
  wake_waiting(budget.name, group, function()
    return ledger_state(budget, (budget.window or '') .. '/' .. group)
  end)
end

-- Changes the ledger at a place, and the total of its window.
local function change_ledger(budget, place, change)
  local total = total_place(place)
  local ledger, sum = read_ledger(budget.name, place) or new_ledger(), read_ledger(budget.name, total) or new_ledger()
  change(ledger)
  change(sum)
  write_ledger(budget.name, place, ledger)
  write_ledger(budget.name, total, sum)
end

local function make_due(budget, at, item)
  redis.call('ZADD', key('wf:budget:due', budget.name), integer(at), item)
end

-- Begins the ledger of a group, unless there is one.
local function begin_ledger(budget, window, place)
  if read_ledger(budget.name, place) then
    return
  end
  write_ledger(budget.name, place, new_ledger(window['until']))
  redis.call('ZADD', key('wf:budget:places', budget.name), 0, place)
  local total = total_place(place)
  local sum = read_ledger(budget.name, total) or new_ledger()
  sum.groups = sum.groups + 1
  write_ledger(budget.name, total, sum)
  budget.groups = budget.groups + 1
  if window['until'] then
    make_due(budget, window['until'] - lead, 'l.' .. place)
  elseif string.match(group_at(place), '^[^:]+:') then
    make_due(budget, now + limits.ledger_checked_every, 'l.' .. place)
  end
end

-- Removes the ledger of a group whose window is over.
local function end_ledger(budget, place, ledger)
  local ledgers, total = key('wf:budget:ledgers', budget.name), total_place(place)
  redis.call('HDEL', ledgers, place)
  redis.call('ZREM', key('wf:budget:places', budget.name), place)
  local sum = read_ledger(budget.name, total)
  if sum then
    leave_total(sum, ledger)
    if sum.groups > 0 then
      write_ledger(budget.name, total, sum)
    else
      redis.call('HDEL', ledgers, total)
    end
  end
  budget.groups = minus(budget.groups, 1)
end

local function read_permit(budget, id)
  return read_row(key('wf:budget:permits', budget.name), id)
end

local function write_permit(budget, permit)
  write_row(key('wf:budget:permits', budget.name), permit.id, permit)
end

-- The name of a window. 'until' is a word of Lua.
local function window_name(window)
  return window['until'] and window.per .. '-' .. sortable(window.from) or window.per
end

local function ledger_place(window, group)
  return window_name(window) .. '/' .. group
end

local function place_of_permit(permit)
  return ledger_place(permit.window, permit.group)
end

-- Adds to what is kept of what happened. The oldest makes room.
local function note_event(budget, event)
  budget.events = budget.events + 1
  local events = key('wf:budget:events', budget.name)
  redis.call('RPUSH', events, event)
  redis.call('LTRIM', events, -limits.budget_events_max, -1)
end

-- Writes down the thresholds that a ledger has just reached. Names of groups need no escaping.
local function warn_of(budget, place)
  local ledger = read_ledger(budget.name, place)
  local warnings, group = {}, group_at(place)
  local used, warned = plus(ledger.spent, ledger.unsettled), ledger.warned
  for _, mark in ipairs(budget.marks) do
    if mark.percent > warned and mark.amount <= used then
      warnings[#warnings + 1] = { percent = mark.percent, used = used, group = group }
      ledger.warned = math.max(ledger.warned, mark.percent)
      note_event(budget, '{"at":' .. integer(now) .. ',"kind":{"warned":{"percent":' .. integer(mark.percent)
        .. ',"used":' .. integer(used) .. ',"group":"' .. group .. '"}}}')
    end
  end
  if #warnings > 0 then
    budget.warnings = (budget.warnings or 0) + #warnings
    write_ledger(budget.name, place, ledger)
  end
  return warnings
end

local function copied(row)
  local same = {}
  for field, value in pairs(row) do
    same[field] = value
  end
  return same
end

-- Ends a permit, or changes how it ended, and counts it anew. Answers with the thresholds that were just reached.
local function end_permit(budget, permit, state, spent)
  local before, place = copied(permit), place_of_permit(permit)
  permit.state, permit.ended_at = state, now
  if state == 'settled' then
    -- What was spent after a release was not reserved any more.
    permit.granted = before.state == 'released' and 0 or permit.granted
    permit.settled = spent
  end
  change_ledger(budget, place, function(ledger)
    change_by_permit(ledger, before, minus)
    change_by_permit(ledger, permit, plus)
  end)
  if before.state == 'open' then
    redis.call('ZREM', key('wf:budget:due', budget.name), 'p.' .. permit.id)
    budget.open, budget.ended = minus(budget.open, 1), budget.ended + 1
  end
  local kept = state == 'unsettled' and limits.unsettled_kept or limits.settled_kept
  redis.call('ZADD', key('wf:budget:ended', budget.name), integer(now + kept), permit.id)
  write_permit(budget, permit)
  if state == 'settled' and permit.settled > permit.granted then
    budget.overdrafts = (budget.overdrafts or 0) + 1
  end
  if state ~= 'unsettled' then
    wake_group(budget, permit.group)
  end
  return warn_of(budget, place)
end

-- Forgets permits that ended long ago, or that must make room for another: at most `most` of them.
local function forget_ended(budget, most)
  local ended = key('wf:budget:ended', budget.name)
  local oldest = redis.call('ZRANGE', ended, 0, most - 1, 'WITHSCORES')
  for index = 1, #oldest, 2 do
    local id = oldest[index]
    if tonumber(oldest[index + 1]) > now and budget.ended < limits.ended_permits_max then
      return
    end
    redis.call('ZREM', ended, id)
    local permit = read_permit(budget, id)
    if permit then
      change_ledger(budget, place_of_permit(permit), function(ledger)
        forget_permit(ledger, permit)
      end)
      redis.call('HDEL', key('wf:budget:permits', budget.name), id)
      budget.ended = minus(budget.ended, 1)
    end
  end
end

-- Whether no run of this id is live. Nothing if that cannot be read.
local function is_run_over(run)
  local status = redis.pcall('HGET', key('wf:run', run), 'status')
  if type(status) == 'table' then
    return nil
  end
  return not status or final[status] or false
end

-- Removes the ledger of a window that is over, unless a permit of it may still be settled.
local function look_at_ledger(budget, place)
  forget_ended(budget, 1000)
  local ledger = read_ledger(budget.name, place)
  if not ledger then
    return
  end
  local run, is_over = string.match(group_at(place), '^([^:]+):'), false
  if ledger.ends_at then
    is_over = ledger.ends_at <= wall
  elseif run then
    is_over = is_run_over(run)
  end
  if is_over and ledger.open == 0 and ledger.ended == 0 then
    end_ledger(budget, place, ledger)
  else
    make_due(budget, now + limits.ledger_checked_every, 'l.' .. place)
  end
end

local function act_on_due(budget, item, report)
  local kind, what = string.match(item, '^(.)%.(.*)$')
  if kind == 'l' then
    look_at_ledger(budget, what)
    return
  end
  local permit = kind == 'p' and read_permit(budget, what)
  if permit and permit.state == 'open' and permit.expires_at and permit.expires_at <= now then
    for _, warning in ipairs(end_permit(budget, permit, 'unsettled')) do
      report.warnings[#report.warnings + 1] = { budget.name, warning }
    end
    report.expired = report.expired + 1
  end
end

-- Acts on what is due of all budgets, at most `most` times. What cannot be read does not keep the others from theirs.
local function expire_due(most)
  local report = { due = 0, expired = 0, warnings = {} }
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', first_due, '-inf', integer(now))) do
    local due = key('wf:budget:due', name)
    local items = redis.call('ZRANGEBYSCORE', due, '-inf', integer(now), 'LIMIT', 0, most - report.due)
    report.due = report.due + #items
    local is_read, budget = pcall(read_budget, name)
    if is_read and not budget then
      delete_parts(name)
    elseif not is_read then
      redis.call('ZADD', first_due, integer(now + limits.ledger_checked_every), name)
    else
      for _, item in ipairs(items) do
        redis.call('ZREM', due, item)
        if not pcall(act_on_due, budget, item, report) then
          make_due(budget, now + limits.ledger_checked_every, item)
        end
      end
      save_budget(budget)
    end
    if report.due >= most then
      break
    end
  end
  return report
end

-- Why a change that was computed for this window of this document cannot be made.
local function why_outdated(budget, asked)
  local window = asked.window
  if budget.revision ~= asked.revision or budget.per ~= window.per then
    return { outcome = 'outdated' }
  end
  if wall < window.from or window['until'] and window['until'] <= wall then
    return { outcome = 'window_over', now = wall }
  end
end

-- Why there cannot be one more ledger, if it cannot.
local function why_no_ledger(budget, place)
  if budget.groups >= limits.groups_max and not read_ledger(budget.name, place) then
    return { outcome = 'too_many', what = 'groups', most = limits.groups_max }
  end
end

local function no_budget()
  return answer({ refused = 'no_budget', name = call.name })
end

-- A budget, and the total of its newest window.
local function view_budget(budget)
  return { budget = budget, total = budget.window and read_ledger(budget.name, budget.window .. '/*') or {} }
end

-- Runs a verb about one budget, which must exist.
local function decide_budget(verb)
  return guarded(function()
    local budget = read_budget(call.name)
    if not budget then
      return no_budget()
    end
    return verb(budget)
  end)
end

-- Runs a verb about one permit of it. The verb answers with a refusal, or with the thresholds that were just reached.
local function decide_permit(verb)
  return decide_budget(function(budget)
    local permit = read_permit(budget, call.permit)
    if not permit then
      return missing()
    end
    -- Only the end of its job ends the permit of a step.
    if permit.job and permit.state == 'open' then
      return conflict('the permit belongs to job ' .. permit.job .. ', whose result settles it')
    end
    local refusal, warnings = verb(budget, permit)
    if refusal then
      return conflict(refusal)
    end
    save_budget(budget)
    return answer({ permit = permit, state = ledger_state(budget, place_of_permit(permit)), has_ended = warnings ~= nil,
      warnings = warnings or {}, woken = count_woken() })
  end)
end
