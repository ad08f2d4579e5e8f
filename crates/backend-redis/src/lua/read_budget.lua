-- needs: budgets
return guarded(function()
  local budget = read_budget(call.name)
  return answer(budget and view_budget(budget))
end)
