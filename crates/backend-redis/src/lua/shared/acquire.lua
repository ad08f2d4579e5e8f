-- needs: fence, run_lock, run_bounds
-- Acquiring runs: for whom, for how long, and whose leases no longer count.
local holder, lease, gone, doubtful = call.holder, call.lease, {}, {}
for _, instance in ipairs(header.gone_instances or {}) do
  gone[instance] = true
end
-- Leases of this very process that nothing in it knows of: the answer to the call that acquired or committed was lost
-- for good.
for _, mark in ipairs(header.doubtful_leases or {}) do
  doubtful[mark] = true
end

-- Whether the run may be acquired, and the fence of a lease that this very request was given before.
local function is_free(run)
  local lock = read_lock(run)
  if not lock or lock.expires_at <= now or gone[lock.owner] then
    return true, nil
  end
  if lock.owner == holder and (doubtful[lock.token] or doubtful[integer(lock.fence)]) then
    return true, nil
  end
  if is_repeat and lock.token == request then
    return true, lock.fence
  end
  return false, nil
end

-- What waits, up to a thousand events and a bounded number of bytes; the rest is for the next turn.
local bytes = 0
local function read_inbox(run)
  local events = {}
  for from = 0, 999, 25 do
    local some = redis.call('LRANGE', key('wf:inbox', run), from, from + 24)
    for _, event in ipairs(some) do
      bytes = bytes + #event
      events[#events + 1] = event
      if bytes > answer_bytes_max then
        return events
      end
    end
    if #some < 25 then
      return events
    end
  end
  return events
end

local function acquire(run)
  local free, fence = is_free(run)
  if not free then
    return nil
  end
  local hash = key('wf:run', run)
  local start, head, inbox_base = unpack(redis.call('HMGET', hash, 'start', 'head', 'inbox_base'))
  if not start then
    return nil
  end
  if not fence then
    fence = mint_fence()
    write_lock(run, { owner = holder, token = request, fence = fence }, lease)
    redis.call('HSET', hash, 'lease', integer(fence))
  end
  local waiting = read_inbox(run)
  local inbox_end = 0
  if #waiting > 0 then
    inbox_end = tonumber(inbox_base or '0') + #waiting
  end
  bytes = bytes + #start + #head
  return { start = start, head = head, fence = fence, inbox_end = inbox_end, inbox = waiting, now = now,
    bounds = run_bounds() }
end
