-- needs: lock_view, page
-- A page of a tenant's held locks, newest first.
return decide(function()
  return answer_page(key('wf:locks:listed'), function(member)
    -- The name stands behind the time and a slash.
    local view = view_lock(open_lock(string.sub(member, 17)))
    local bytes = 0
    for _, holder in ipairs(view and view.holders or {}) do
      bytes = bytes + #holder
    end
    return view, bytes
  end)
end)
