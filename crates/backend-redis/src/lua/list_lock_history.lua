-- needs: lock_record
-- What happened to a lock, newest first. Every event has a number; those before `before` are listed.
return decide(function(lock)
  local grants, kept = overdue(lock), redis.call('LLEN', lock.history)
  local items, bytes = {}, 0
  local at = math.min(call.before, lock.events + #grants + 1) - 1
  while at > lock.events - kept do
    if #items == call.limit or bytes > answer_bytes_max then
      return answer({ next_page = #items > 0 and at + 1, items = items })
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
