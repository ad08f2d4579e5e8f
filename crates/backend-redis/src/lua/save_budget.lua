-- needs: budgets, budget_queue, fence
-- Creates a budget, or replaces its document. What was reserved and spent stays.
return guarded(function()
  local before = read_budget(call.name)
  if is_repeat and before and before.request == request then
    return answer(before)
  end
  if call.expected then
    if not before then
      return no_budget()
    elseif before.revision ~= call.expected then
      return conflict('budget ' .. call.name .. ' has revision ' .. integer(before.revision) .. ', not '
        .. integer(call.expected) .. ': read it again and repeat the change')
    end
  end
  local budget = before
  if not budget then
    if redis.call('HLEN', budgets) >= limits.budgets_max then
      return conflict('the tenant has ' .. integer(limits.budgets_max) .. ' budgets, the maximum; delete one first')
    end
    -- As where the tenant comes into being with its first fence.
    mint_fence()
    delete_parts(call.name)
    budget = { name = call.name, revision = 0, created_at = now, increases = {}, open = 0, ended = 0, groups = 0, events = 0 }
  end
  budget.revision, budget.updated_at, budget.request = budget.revision + 1, now, request
  budget.document, budget.amount, budget.per, budget.marks = call.document, call.amount, call.per, call.marks
  save_budget(budget)
  wake_all(call.name)
  return answer(budget)
end)
