-- needs: ledger, budgets, fence
-- Reserves from a budget, or says why not. The same request gets the same permit.
local name = call.name

-- Why the request cannot be repeated as it is, if it cannot.
local function why_not_again(permit)
  if permit.asked ~= call.amount or permit.least ~= call.least or permit.group ~= call.group then
    return 'the request id was used with another amount, key or run; use a new one for a new reservation'
  elseif permit.state == 'settled' or permit.state == 'released' then
    return 'the permit of this request id was ' .. permit.state .. '; use a new one for a new reservation'
  end
end

local function run_over()
  if not call.run then
    return nil
  end
  local status = redis.call('HGET', key('wf:run', call.run), 'status')
  if not status or final[status] then
    return { outcome = 'run_over', is_known = status and true or false }
  end
end

local function grant(budget, place, remaining)
  local permit = { id = call.permit, window = call.window, group = call.group, state = 'open', asked = call.amount,
    least = call.least, granted = math.min(call.amount, remaining), fence = mint_fence(), granted_at = now,
    expires_at = now + call.ttl, settled = 0 }
  begin_ledger(budget, call.window, place)
  change_ledger(budget, place, function(ledger)
    change_by_permit(ledger, permit, plus)
  end)
  budget.open, budget.window = budget.open + 1, window_name(call.window)
  make_due(budget, permit.expires_at, 'p.' .. permit.id)
  write_permit(budget, permit)
  return { outcome = 'granted', permit = permit, state = ledger_state(budget, place), is_replay = false }
end

local function reserve(budget)
  local known = read_permit(budget, call.permit)
  if known then
    return { outcome = 'granted', permit = known, state = ledger_state(budget, place_of_permit(known)), is_replay = true }
  end
  local place = ledger_place(call.window, call.group)
  local refused = why_outdated(budget) or run_over()
  if refused then
    return refused
  end
  if budget.open >= limits.open_permits_max then
    return { outcome = 'too_many', what = 'open_permits', most = limits.open_permits_max }
  end
  refused = why_no_ledger(budget, place)
  if refused then
    return refused
  end
  local state = ledger_state(budget, place)
  if state.remaining < call.least then
    return { outcome = 'exhausted', state = state, now = wall }
  end
  return grant(budget, place, state.remaining)
end

return decide_budget(function(budget)
  local known = read_permit(budget, call.permit)
  local why = known and why_not_again(known)
  if why then
    return conflict(why)
  end
  expire_due(limits.expired_at_once_max)
  budget = read_budget(name)
  forget_ended(budget, 8)
  local answered = reserve(budget)
  save_budget(budget)
  return answer(answered)
end)
