-- needs: ledger, budgets, budget_queue
-- Changes what may be spent, for this window or until a time.
local group = call.group or ':'

local function increase(budget)
  local live = {}
  for _, known in ipairs(budget.increases) do
    if wall < known['until'] then
      live[#live + 1] = known
    end
  end
  if #live >= limits.increases_max then
    return integer(limits.increases_max) .. ' temporary increases are in force, the maximum; wait until one ends'
  end
  live[#live + 1] = { delta = call.delta, ['until'] = call.ends_at, group = call.group }
  budget.increases = live
end

-- Whether this very adjustment is among those that are kept.
local function is_done(budget)
  for _, event in ipairs(redis.call('LRANGE', key('wf:budget:events', budget.name), 0, -1)) do
    if string.find(event, '"kind":{"adjusted":{"id":"' .. call.id .. '"', 1, true) then
      return true
    end
  end
  return false
end

return decide_budget(function(budget)
  local place = ledger_place(call.window, group)
  if is_done(budget) then
    return answer({ outcome = 'done', state = ledger_state(budget, place) })
  end
  local refused = why_outdated(budget, call)
  if not refused and not call.ends_at then
    refused = why_no_ledger(budget, place)
  end
  if refused then
    return answer(refused)
  end
  local why = call.ends_at and increase(budget)
  if why then
    return conflict(why)
  end
  if not call.ends_at then
    begin_ledger(budget, call.window, place)
    change_ledger(budget, place, function(ledger)
      ledger.adjusted = plus_delta(ledger.adjusted, call.delta)
    end)
    budget.window = window_name(call.window)
  end
  if call.ends_at and not call.group then
    wake_all(budget.name)
  else
    wake_group(budget, group)
  end
  note_event(budget, at_time(call.event, now))
  save_budget(budget)
  return answer({ outcome = 'done', state = ledger_state(budget, place) })
end)
