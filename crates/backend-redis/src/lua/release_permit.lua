-- needs: budgets
-- Ends a permit of which nothing was spent. One that was settled stays so.
return decide_permit(function(budget, permit)
  if permit.state == 'open' or permit.state == 'unsettled' then
    forget_ended(budget, 8)
    return nil, end_permit(budget, permit, 'released')
  end
end)
