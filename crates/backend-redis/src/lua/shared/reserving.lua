-- needs: ledger, budgets, budget_queue, fence, status
-- Reserving from a budget. What is asked for has: `permit`, the id; `revision`, of the document that `window` and `group` were
-- computed by; `run`, whose amount it is, if it is one run's; `amount`, and `least`, which would do; and `ttl`, or the `job`
-- with which the permit ends, and the `place` where it waits if it does.
local function run_over(run)
  if not run then
    return nil
  end
  local status = redis.call('HGET', key('wf:run', run), 'status')
  if not status or final[status] then
    return { outcome = 'run_over', is_known = status and true or false }
  end
end

local function grant_permit(budget, asked, place, remaining)
  local permit = { id = asked.permit, window = asked.window, group = asked.group, state = 'open', asked = asked.amount,
    least = asked.least, granted = math.min(asked.amount, remaining), fence = mint_fence(), granted_at = now,
    expires_at = asked.ttl and now + asked.ttl, job = asked.job, settled = 0 }
  begin_ledger(budget, asked.window, place)
  change_ledger(budget, place, function(ledger)
    change_by_permit(ledger, permit, plus)
  end)
  budget.open, budget.window = budget.open + 1, window_name(asked.window)
  if permit.expires_at then
    make_due(budget, permit.expires_at, 'p.' .. permit.id)
  end
  write_permit(budget, permit)
  return { outcome = 'granted', permit = permit, state = ledger_state(budget, place), is_replay = false }
end

-- Writes permit and ledger, or neither.
local function reserve_from(budget, asked)
  local known = read_permit(budget, asked.permit)
  if known then
    return { outcome = 'granted', permit = known, state = ledger_state(budget, place_of_permit(known)), is_replay = true }
  end
  local place = ledger_place(asked.window, asked.group)
  local refused = why_outdated(budget, asked) or run_over(asked.run)
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
  local ahead, is_blocked = 0, false
  if asked.place then
    ahead, is_blocked = ahead_of(budget.name, asked.place, state.limit)
  end
  if is_blocked or state.remaining < asked.least then
    return { outcome = 'exhausted', state = state, now = wall, ahead = ahead }
  end
  return grant_permit(budget, asked, place, state.remaining)
end

-- Makes room of what has ended, then reserves.
local function reserve_now(name, asked)
  expire_due(limits.expired_at_once_max)
  local budget = read_budget(name)
  forget_ended(budget, 8)
  local answered = reserve_from(budget, asked)
  save_budget(budget)
  return answered
end
