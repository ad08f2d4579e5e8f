-- needs: fence, run_lock, run_bounds, starts, texts, inbox
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

-- Whether no instance holds the run, the fence of a lease that this very request was given before, and whether the last
-- lease is one that nothing in this process knows of.
local function is_free(run)
  local lock = read_lock(run)
  if not lock or lock.expires_at <= now or gone[lock.owner] then
    return true, nil, false
  end
  if lock.owner == holder and (doubtful[lock.token] or doubtful[integer(lock.fence)]) then
    return true, nil, true
  end
  if is_repeat and lock.token == request then
    return true, lock.fence, false
  end
  return false, nil, false
end

-- What waits, up to a thousand events and a bounded number of bytes; the rest is for the next turn.
local bytes = 0
local function read_inbox(run)
  local events = {}
  for from = 0, 999, 25 do
    local some = redis.call('LRANGE', key('wf:inbox', run), from, from + 24)
    for _, event in ipairs(some) do
      local of = outcome_after(event)
      local outcome = of and text_key('outcome', of)
      bytes = bytes + #event + (of and redis.call('STRLEN', outcome) or 0)
      events[#events + 1] = of and text_at(outcome, event, '}}') or event
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

-- The run as its new holder gets it: under the fence of its lease, or under a new one. `only` is all that it gets of the
-- inbox, and stands for everything in it.
local function hand_over(run, found, fence, tries, only)
  local hash = key('wf:run', run)
  if not fence then
    fence = mint_fence()
    write_lock(run, { owner = holder, token = request, fence = fence }, lease)
    redis.call('HSET', hash, 'lease', integer(fence))
    if tries > 1 then
      redis.call('HSET', hash, 'tries', integer(tries))
    elseif found.tries then
      redis.call('HDEL', hash, 'tries')
    end
  end
  local waiting, count = { only }, nil
  if only then
    count = redis.call('LLEN', key('wf:inbox', run))
  else
    waiting = read_inbox(run)
    count = #waiting
  end
  local inbox_end = 0
  if count > 0 then
    inbox_end = tonumber(found.inbox_base or '0') + count
  end
  local start, start_bytes = show_start(run, found.start)
  local head, head_bytes = show_text(found.head, 'head', run)
  bytes = bytes + start_bytes + head_bytes
  return { start = start, head = head, fence = fence, inbox_end = inbox_end, inbox = waiting, now = now,
    bounds = run_bounds() }
end

local function read_acquirable(run)
  return read_fields(key('wf:run', run), 'start', 'head', 'inbox_base', 'lease', 'tries', 'quarantined_at', 'cancel')
end

-- How many turns in a row were abandoned, if no instance holds the run.
local function abandoned(found)
  return found.lease and tonumber(found.tries or '1') or 0
end

-- The run, if it can be acquired. If not, whether it is a suspect.
local function acquire(run)
  local free, fence, is_own = is_free(run)
  if not free then
    return nil, false
  end
  local found = read_acquirable(run)
  if not found.start then
    return nil, false
  end
  if found.quarantined_at then
    if not found.cancel then
      -- What comes for it waits until a person has decided.
      redis.call('ZREM', key('wf:ready'), run)
    end
    return nil, found.cancel ~= nil
  end
  local tries = abandoned(found)
  if not fence then
    -- Holder after holder neither committed nor released it.
    if tries >= limits.suspect_from then
      return nil, true
    end
    tries = is_own and tries or tries + 1
  end
  return hand_over(run, found, fence, tries), false
end
