-- needs: budgets
-- A page of the ledgers of one window, or one of them.
return decide_budget(function(budget)
  local function view(place)
    return { group = group_at(place), state = ledger_state(budget, place) }
  end
  local window, page = call.window .. '/', call.page
  if call.only then
    return answer({ items = { view(window .. call.only) } })
  end
  local from = page.after and '(' .. window .. page.after or '[' .. window
  -- '0' is the character after '/'.
  local places = redis.call('ZRANGE', key('wf:budget:places', call.name), from, '(' .. call.window .. '0', 'BYLEX',
    'LIMIT', 0, page.limit + 1)
  local items, next_group = {}, nil
  for index, place in ipairs(places) do
    if index > page.limit then
      next_group = items[#items] and items[#items].group
      break
    end
    items[index] = view(place)
  end
  return answer({ items = items, next = next_group })
end)
