-- needs: locks
-- Acquires a lock: granted, waiting, or refused. `held` is the token of a lease that the caller has already, `stay` for
-- how long it waits.
local owner, mode, asked, token = call.owner, call.mode, call.request, call.call

-- One of the locks that no call touches any more: ended, and much later forgotten.
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
  -- It may have expired by itself before the last sweep.
  save_listing(id, nil)
  save_waiting(id, 0)
end

-- A few of them, with every request in the same home. A damaged one does not stop the others.
local function sweep()
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', sweeps, '-inf', integer(now), 'LIMIT', 0, limits.sweep_max)) do
    if id ~= own_id and not pcall(sweep_one, id) then
      redis.call('ZADD', sweeps, integer(now + limits.history_kept), id)
    end
  end
end

-- What the home has beside this lock, which was last written before what has just expired.
local function others_held(lock)
  return redis.call('ZCARD', listed) - redis.call('HEXISTS', listed_since, lock.id)
end

local function others_waiting(lock)
  local counts = redis.call('HMGET', waiting_counts, '', lock.id)
  return tonumber(counts[1] or '0') - tonumber(counts[2] or '0')
end

-- The first in the queue waits for a lease to expire. The second, if it is the first's turn, for the first to be gone.
local function may_change_in(lock, place)
  local at
  if place == 0 then
    at = redis.call('ZRANGE', lock.ends, 0, 0, 'WITHSCORES')[2]
  elseif place == 1 then
    local first = first_waiter(lock)
    at = first and fits(lock, first.mode) and first.alive_until
  end
  return at and math.max(tonumber(at) - now, 0)
end

local function busy(outcome, lock, place, is_line_full)
  local holder = first_holder(lock)
  local held_for = holder and math.max(now - lock.since, 0) or 0
  return { outcome = outcome, value = { holder = holder and holder.owner, held_for = held_for, position = place + 1,
    may_change_in = may_change_in(lock, place), is_line_full = is_line_full or false } }
end

local function granted(text)
  return { outcome = 'granted', value = text }
end

local function over_quota(quota, limit, current)
  return { outcome = 'over_quota', what = quota, limit = limit, current = current }
end

local function grant(lock)
  local fence = mint(lock)
  if not first_holder(lock) then
    lock.since = now
  end
  lock.fence, lock.is_hold_changed = fence, true
  local held_now = { owner = owner, mode = mode, token = token, request = asked, call = token, fence = fence,
    acquired_at = now, expires_at = now + call.ttl }
  -- First what fails if the history is damaged: half a grant would block the lock.
  note(lock, held_now, now, nil)
  redis.call('ZADD', lock.order, integer(fence), token)
  leave(lock, asked)
  return granted(write_grant(lock, held_now))
end

local function stay_or_leave(lock, waiter)
  local place, length = redis.call('ZRANK', lock.line, asked), redis.call('ZCARD', lock.line)
  if not call.stay then
    leave_by(lock, asked, token)
    return busy('refused', lock, redis.call('ZCARD', lock.line))
  end
  if not waiter and length >= call.limits.line_max then
    return busy('refused', lock, length, true)
  end
  local all_waiting = others_waiting(lock) + length
  if not waiter and all_waiting >= call.limits.waiting_max then
    return over_quota('waiting', call.limits.waiting_max, all_waiting)
  end
  if not waiter then
    waiter = { request = asked, owner = owner, mode = mode, since = now, calls = {} }
    place, lock.ticket, lock.is_line_changed = length, lock.ticket + 1, true
    redis.call('ZADD', lock.line, integer(lock.ticket), asked)
  end
  waiter.alive_until = now + call.stay
  attend(waiter, token, true)
  write_waiter(lock, waiter)
  return busy('waiting', lock, place)
end

local function decide_request(lock, known, waiter)
  if known then
    if call.held then
      -- Re-entering renews the lease.
      known.expires_at = math.max(known.expires_at, now + call.ttl)
    else
      known.call = token
    end
    return granted(write_grant(lock, known))
  end
  local first = first_waiter(lock)
  if (not first or first.request == asked) and fits(lock, mode) then
    local held_beside = others_held(lock)
    if not first_holder(lock) and held_beside >= call.limits.held_max then
      leave(lock, asked)
      return over_quota('held', call.limits.held_max, held_beside)
    end
    return grant(lock)
  end
  return stay_or_leave(lock, waiter)
end

-- The request that has just become the first in the queue and would not look before the new lease ends: it has to learn
-- when that is.
local function who_must_know(lock, decided)
  local first = decided.outcome == 'granted' and first_waiter(lock)
  local new_grant = first and live_grant(lock, token)
  return new_grant and new_grant.expires_at < first.alive_until and first.request
end

-- Whether the request is refused without any change. All that wait for an admission lock try every few milliseconds:
-- such a try only reads.
local function is_plainly_held(lock)
  if lock_kind ~= 'admission' or call.stay or redis.call('EXISTS', lock.line) == 1 then
    return false
  end
  local holder = first_holder(lock)
  return holder and holder.mode == 'exclusive' and now < holder.expires_at and holder.request ~= asked
    and not is_foreign(lock) and lock.visible
end

return decide(function(lock)
  if not call.held and is_plainly_held(lock) then
    return answer({ answer = busy('refused', lock, 0) })
  end
  local known, waiter
  if call.held then
    known = live_grant(lock, call.held)
    if not known then
      return refusal(lock, call.held)
    end
    if known.mode ~= mode then
      return conflict('the lease is in another mode; release it and acquire the lock again')
    end
  else
    known = granted_to(lock, asked)
    waiter = not known and live_waiter(lock, asked)
    local before = known or waiter
    if before and (before.owner ~= owner or before.mode ~= mode) then
      return conflict('the request id ' .. asked
        .. ' was used with another owner or mode; use a new one for a new request')
    end
  end
  sweep()
  purge(lock)
  local decided = decide_request(lock, known, waiter)
  local turn = whose_turn(lock)
  local next_request = turn ~= asked and turn or who_must_know(lock, decided)
  save(lock)
  return answer({ answer = decided, next = next_request })
end)
