-- needs: budgets
-- Extends an open permit from now on. One that has expired stays so.
return decide_permit(function(budget, permit)
  if permit.state == 'unsettled' or permit.state == 'open' and permit.expires_at <= now then
    return 'the permit has expired; settle it with what was spent, or release it if nothing was'
  elseif permit.state ~= 'open' then
    return 'the permit was ' .. permit.state .. '; reserve again'
  end
  permit.expires_at = now + call.ttl
  make_due(budget, permit.expires_at, 'p.' .. permit.id)
  write_permit(budget, permit)
end)
