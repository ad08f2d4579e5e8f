-- needs: budgets
-- Removes a budget with its ledger and its permits.
return guarded(function()
  local budget = read_budget(call.name)
  if not budget then
    return is_repeat and answer() or no_budget()
  end
  if call.expected and budget.revision ~= call.expected then
    return conflict('budget ' .. call.name .. ' has revision ' .. integer(budget.revision) .. ', not '
      .. integer(call.expected) .. ': read it again and repeat the change')
  end
  redis.call('HDEL', budgets, call.name)
  delete_parts(call.name)
  return answer()
end)
