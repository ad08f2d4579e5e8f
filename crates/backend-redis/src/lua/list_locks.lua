-- needs: lock_view, page
-- A page of a tenant's held locks, newest first.
return decide(function()
  local members, next_page = read_page(key('wf:locks:listed'), call.after, call.limit)
  local items, bytes = {}, 0
  for index, member in ipairs(members) do
    -- The name stands behind the time and a slash.
    local lock = open_lock(string.sub(member, 17))
    local holders = live_holders(lock)
    for _, holder in ipairs(holders) do
      bytes = bytes + #holder
    end
    if #holders > 0 then
      items[#items + 1] = { lock = lock.id, holders = holders, waiting = waiting_for(lock) }
    end
    if bytes > answer_bytes_max and index < #members then
      return answer({ next_page = member, items = items })
    end
  end
  return answer({ next_page = next_page, items = items })
end)
