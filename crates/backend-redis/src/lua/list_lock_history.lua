-- needs: lock_record
-- What happened to a lock, newest first. Every event has a number, and a page ends with one.
local numbers_max = 2 ^ 53
return decide(function(lock)
  local grants, kept = overdue(lock), redis.call('LLEN', lock.history)
  local items, bytes = {}, 0
  local before = math.min(tonumber(call.page.after) or numbers_max, numbers_max)
  local at = math.min(before, lock.events + #grants + 1) - 1
  while at > lock.events - kept do
    if #items == call.page.limit or bytes > answer_bytes_max then
      return answer({ next = #items > 0 and at + 1, items = items })
    end
    local event
    if at > lock.events then
      local grant = grants[at - lock.events]
      event = event_of(grant, grant.expires_at, expired)
    else
      event = redis.call('LINDEX', lock.history, at - lock.events - 1)
    end
    items[#items + 1], bytes, at = event, bytes + #event, at - 1
  end
  return answer({ items = items })
end)
