-- needs: ledger, budgets
-- Counts what was spent and ends the permit. Repeated, it counts once.
return decide_permit(function(budget, permit)
  if permit.state ~= 'settled' then
    forget_ended(budget, 8)
    return nil, end_permit(budget, permit, 'settled', call.amount)
  end
  if permit.settled ~= call.amount then
    return 'the permit was settled with ' .. amount_text(permit.settled) .. '; an operator can adjust the budget'
  end
end)
