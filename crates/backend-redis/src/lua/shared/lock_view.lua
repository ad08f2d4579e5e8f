-- needs: lock_record
-- Locks as they are shown, without expired leases that are not written down yet.
local function live_holders(lock)
  local holders = {}
  for _, token in ipairs(redis.call('ZRANGE', lock.order, 0, -1)) do
    local text = redis.call('HGET', lock.hash, 'h:' .. token) or damaged('hold')
    if now < decoded(text, grant_fields, 'hold').expires_at then
      holders[#holders + 1] = text
    end
  end
  return holders
end

-- What a lock is on. The name of a resource in keys has no '/'.
local function resource_of(id)
  if lock_kind == 'admission' then
    return 'wf:run:admission:' .. string.sub(tag, 2, -2)
  end
  return (string.gsub(string.gsub(id, '%%2F', '/'), '%%25', '%%'))
end

local function waiting_for(lock)
  return integer(redis.call('ZCOUNT', lock.silences, '(' .. integer(now), '+inf'))
end

-- The lock with its holders; nothing if it has none.
local function view_lock(lock)
  local holders = live_holders(lock)
  return #holders > 0 and { resource = resource_of(lock.id), holders = holders, waiting = waiting_for(lock) } or nil
end

-- The first waiters of the queue.
local function live_line(lock, limit)
  local line, from = {}, 0
  repeat
    local some = redis.call('ZRANGE', lock.line, from, from + limit - 1)
    for _, asked in ipairs(some) do
      local text = redis.call('HGET', lock.hash, 'w:' .. asked) or damaged('waiter')
      if #line < limit and now < decoded(text, waiter_fields, 'waiter').alive_until then
        line[#line + 1] = text
      end
    end
    from = from + limit
  until #line == limit or #some < limit
  return line
end
