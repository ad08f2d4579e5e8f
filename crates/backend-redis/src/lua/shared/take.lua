-- Taking runs: who takes, for how long, and whose holds count no more.
local holder, lease, gone, doubtful = '', 0, {}, {}
local function read_taker()
  holder, lease = argument(), number()
  for _ = 1, number() do
    gone[argument()] = true
  end
  -- Holds of this very process that nobody in it knows of: the answer to the take, or to the commit, was lost for good.
  for _ = 1, number() do
    doubtful[argument()] = true
  end
end

-- Whether the run may be taken, and the fence of a hold that this very request was given before.
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

local function take(run)
  local free, fence = is_free(run)
  if not free then
    return nil
  end
  local hash = key('wf:run', run)
  local found = redis.call('HMGET', hash, 'start', 'head', 'inbox_base')
  if not found[1] then
    return nil
  end
  if not fence then
    fence = mint_fence()
    write_lock(run, { owner = holder, token = request, fence = fence }, lease)
    redis.call('HSET', hash, 'lease', integer(fence))
  end
  local waiting = read_inbox(run)
  local last = 0
  if #waiting > 0 then
    last = tonumber(found[3] or '0') + #waiting
  end
  bytes = bytes + #found[1] + #found[2]
  return { found[1], found[2], integer(fence), integer(last), waiting }
end
