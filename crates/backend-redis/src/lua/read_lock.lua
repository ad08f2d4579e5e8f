-- needs: lock_view
-- A held lock with the first of its queue.
return decide(function(lock)
  local view = view_lock(lock)
  return answer(view and { view = view, line = live_line(lock, limits.line_shown_max) })
end)
