-- Asks for a lock: granted, in line, or refused.
local owner, mode, ttl = argument(), argument(), number()
local asked, call, held, stay = argument(), argument(), argument(), argument()
local held_max, waiting_max, line_max, sweep_max = number(), number(), number(), number()

-- One of the locks that nobody touches any more: ended, and much later forgotten.
local function sweep_one(id)
  local lock = open_lock(id)
  local is_at_rest = redis.call('EXISTS', lock.ends, lock.line) == 0
  if lock.is_known and not is_at_rest then
    purge(lock)
    save(lock)
    return
  end
  redis.call('DEL', lock.hash, lock.order, lock.ends, lock.line, lock.silences, lock.history)
  redis.call('ZREM', sweeps, id)
  -- It may have ended by itself before anybody swept here.
  save_listing(id, nil)
  save_waiting(id, 0)
end

-- A few of them, with every request in the same home. One that is damaged does not keep the others from being taken.
local function sweep()
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', sweeps, '-inf', integer(now), 'LIMIT', 0, sweep_max)) do
    if id ~= own_id and not pcall(sweep_one, id) then
      redis.call('ZADD', sweeps, integer(now + history_kept), id)
    end
  end
end

-- What the home has beside this lock, which was last written before what has just run out.
local function others_held(lock)
  return redis.call('ZCARD', listed) - redis.call('HEXISTS', listed_since, lock.id)
end

local function others_waiting(lock)
  local counts = redis.call('HMGET', waiting_counts, '', lock.id)
  return tonumber(counts[1] or '0') - tonumber(counts[2] or '0')
end

-- The first in line waits for a hold to run out. The second, if it is the first's turn, for the first to be gone.
local function may_change_in(lock, place)
  local at
  if place == 0 then
    at = redis.call('ZRANGE', lock.ends, 0, 0, 'WITHSCORES')[2]
  elseif place == 1 then
    local first = first_waiter(lock)
    at = first and fits(lock, first.mode) and first.alive_until
  end
  return at and integer(math.max(tonumber(at) - now, 0)) or ''
end

local function busy(word, lock, place, is_line_full)
  local holder = first_holder(lock)
  local held_for = holder and math.max(now - lock.since, 0) or 0
  return { word, holder and holder.owner or false, integer(held_for), integer(place + 1), may_change_in(lock, place),
    is_line_full and '1' or '0' }
end

local function grant(lock)
  local fence = mint(lock)
  if not first_holder(lock) then
    lock.since = now
  end
  lock.fence, lock.is_hold_changed = fence, true
  local held_now = { owner = owner, mode = mode, token = call, request = asked, call = call, fence = fence,
    acquired_at = now, expires_at = now + ttl }
  -- First what may fail, should the history be damaged: half a grant would be in everybody's way.
  note(lock, held_now, now, nil)
  redis.call('ZADD', lock.order, integer(fence), call)
  leave(lock, asked)
  return { 'granted', write_grant(lock, held_now) }
end

local function stay_or_leave(lock, waiter)
  local place, length = redis.call('ZRANK', lock.line, asked), redis.call('ZCARD', lock.line)
  if stay == '' then
    leave_by(lock, asked, call)
    return busy('refused', lock, redis.call('ZCARD', lock.line))
  end
  if not waiter and length >= line_max then
    return busy('refused', lock, length, true)
  end
  local all_waiting = others_waiting(lock) + length
  if not waiter and all_waiting >= waiting_max then
    return { 'over_quota', 'waiting', integer(waiting_max), integer(all_waiting) }
  end
  if not waiter then
    waiter = { request = asked, owner = owner, mode = mode, since = now, calls = {} }
    place, lock.ticket, lock.is_line_changed = length, lock.ticket + 1, true
    redis.call('ZADD', lock.line, integer(lock.ticket), asked)
  end
  waiter.alive_until = now + tonumber(stay)
  attend(waiter, call, true)
  write_waiter(lock, waiter)
  return busy('waiting', lock, place)
end

local function answer(lock, known, waiter)
  if known then
    if held ~= '' then
      -- Re-entering is another word from the holder.
      known.expires_at = math.max(known.expires_at, now + ttl)
    else
      known.call = call
    end
    return { 'granted', write_grant(lock, known) }
  end
  local first = first_waiter(lock)
  if (not first or first.request == asked) and fits(lock, mode) then
    local held_beside = others_held(lock)
    if not first_holder(lock) and held_beside >= held_max then
      leave(lock, asked)
      return { 'over_quota', 'held', integer(held_max), integer(held_beside) }
    end
    return grant(lock)
  end
  return stay_or_leave(lock, waiter)
end

-- Who has just become the first in line and would not look before the new hold ends: it has to learn when that is.
local function who_must_know(lock, said)
  local first = said[1] == 'granted' and first_waiter(lock)
  local granted = first and live_grant(lock, call)
  return granted and granted.expires_at < first.alive_until and first.request
end

-- Whether nothing is to be done but to say no. Those who wait for an admission lock try every few milliseconds, all of
-- them: such a try only reads.
local function is_plainly_held(lock)
  if kind ~= 'admission' or stay ~= '' or redis.call('EXISTS', lock.line) == 1 then
    return false
  end
  local holder = first_holder(lock)
  return holder and holder.mode == 'exclusive' and now < holder.expires_at and holder.request ~= asked
    and not is_foreign(lock) and lock.visible
end

return decide(function(lock)
  if held == '' and is_plainly_held(lock) then
    return { 'ok', false, busy('refused', lock, 0) }
  end
  local known, waiter
  if held ~= '' then
    known = live_grant(lock, held)
    if not known then
      return refusal(lock, held)
    end
    if known.mode ~= mode then
      return { 'conflict', 'the hold is in another mode; give it back and ask for it anew' }
    end
  else
    known = granted_to(lock, asked)
    waiter = not known and live_waiter(lock, asked)
    local before = known or waiter
    if before and (before.owner ~= owner or before.mode ~= mode) then
      return { 'conflict', 'the request id ' .. asked
        .. ' was used with another owner or mode; use a new one for a new request' }
    end
  end
  sweep()
  purge(lock)
  local said = answer(lock, known, waiter)
  local turn = whose_turn(lock)
  turn = turn ~= asked and turn or who_must_know(lock, said)
  save(lock)
  return { 'ok', turn or false, said }
end)
