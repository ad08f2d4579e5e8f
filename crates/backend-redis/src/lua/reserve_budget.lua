-- needs: budgets, reserving
-- Reserves from a budget, or says why not. The same request gets the same permit.
--
-- Why the request cannot be repeated as it is, if it cannot.
local function why_not_again(permit)
  if permit.asked ~= call.amount or permit.least ~= call.least or permit.group ~= call.group then
    return 'the request id was used with another amount, key or run; use a new one for a new reservation'
  elseif permit.state == 'settled' or permit.state == 'released' then
    return 'the permit of this request id was ' .. permit.state .. '; use a new one for a new reservation'
  end
end

return decide_budget(function(budget)
  local known = read_permit(budget, call.permit)
  local why = known and why_not_again(known)
  if why then
    return conflict(why)
  end
  return answer(reserve_now(call.name, call))
end)
