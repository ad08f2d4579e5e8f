-- needs: lock_view
-- A held lock with the first of its queue.
return decide(function(lock)
  local holders = live_holders(lock)
  if #holders == 0 then
    return answer()
  end
  return answer({ holders = holders, waiting = waiting_for(lock), line = live_line(lock, call.line_shown_max) })
end)
