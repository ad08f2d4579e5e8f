-- needs: budgets
-- Ends the permits whose time has come, and removes windows that are over.
return guarded(function()
  return answer(expire_due(call.limit))
end)
