-- needs: budgets, order
-- All budgets of a tenant, by name.
return guarded(function()
  local names, found = redis.call('HKEYS', budgets), {}
  table.sort(names, precedes)
  for index, name in ipairs(names) do
    found[index] = view_budget(read_budget(name))
  end
  return answer(found)
end)
