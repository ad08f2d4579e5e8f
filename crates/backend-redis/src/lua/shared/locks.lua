-- needs: fence, visible, lock_record
-- What is done to a lock. A verb opens it, refuses what is a mistake before anything is written, then purges, decides,
-- and saves.

-- Of a home, which is a tenant or one lock of a stage: held locks by since when, all locks by when nothing of them is
-- alive any more or all can be forgotten, and how many wait for each (and, under no name, for all of them). They name
-- also locks whose keys have ended by themselves, until the next sweep there.
-- A tenant's admission lock is beside its users' locks and not among them: it counts for no quota, and is in no list.
local list_of = lock_kind == 'admission' and 'admission' or nil
local listed, listed_since = key('wf:locks:listed', list_of), key('wf:locks:since', list_of)
local sweeps, waiting_counts = key('wf:locks:sweeps', list_of), key('wf:locks:waiting', list_of)

-- Holders that the visible value tells of.
local holders_shown_max = 32

-- What people read with GET. The record decides: if an operator deletes the value, the lock is still held, and
-- the next call on the lock writes it again.
local function visible_name(lock)
  if lock_kind == 'stage' then
    return string.sub(tag, 2, -2)
  end
  if lock_kind == 'admission' then
    return lock_prefix .. 'wf:run:admission:' .. (is_cluster and tag or string.sub(tag, 2, -2))
  end
  local resource = string.gsub(string.gsub(lock.id, '%%2F', '/'), '%%25', '%%')
  return lock_prefix .. 'lock:' .. tag .. ':' .. resource
end

-- Whether a value stands there that is not ours: then another program holds it.
local function is_foreign(lock)
  if lock.visible == nil then
    lock.visible = redis.pcall('GET', visible_name(lock))
  end
  return lock.visible and lock.visible ~= lock.shown
end

-- Why this token opens nothing: it never did, or does no more.
local function refusal(lock, token)
  if not lock.is_known then
    return missing()
  end
  local grant = read_grant(lock, token)
  if grant then
    return fenced(lock.fence, grant.fence)
  end
  local ended = redis.call('HGET', lock.hash, 'e:' .. token)
  return fenced(lock.fence, ended and string.match(ended, '^%d+ (%d+)') or '0')
end

-- Writes down what happened, and forgets the oldest of what is known.
local function note(lock, grant, at, ending)
  lock.events = lock.events + 1
  local kept = redis.call('RPUSH', lock.history, event_of(grant, at, ending))
  if ending then
    redis.call('HSET', lock.hash, 'e:' .. grant.token,
      integer(lock.events) .. ' ' .. integer(grant.fence) .. ' ' .. ending)
  end
  if kept <= limits.history_max then
    return
  end
  local forgotten = cjson.decode(redis.call('LPOP', lock.history))
  local ended = redis.call('HGET', lock.hash, 'e:' .. forgotten.token)
  if ended and string.match(ended, '^%d+') == integer(lock.events - limits.history_max) then
    redis.call('HDEL', lock.hash, 'e:' .. forgotten.token)
  end
end

-- Who has held it for longest.
local function first_holder(lock)
  if lock.holder == nil then
    local token = redis.call('ZRANGE', lock.order, 0, 0)[1]
    lock.holder = token and (read_grant(lock, token) or damaged('hold')) or false
  end
  return lock.holder
end

local function first_waiter(lock)
  if lock.waiter == nil then
    local asked = redis.call('ZRANGE', lock.line, 0, 0)[1]
    lock.waiter = asked and (read_waiter(lock, asked) or damaged('waiter')) or false
  end
  return lock.waiter
end

-- A hold as people read it, without the last brace.
local function shown_grant(grant, expires_at)
  return '{"owner":' .. quoted(grant.owner) .. ',"token":' .. quoted(grant.token)
    .. ',"fence":' .. integer(grant.fence) .. ',"mode":"' .. grant.mode
    .. '","acquired_at":' .. integer(grant.acquired_at) .. ',"expires_at":' .. integer(expires_at)
end

local function write_grant(lock, grant)
  lock.holder = nil
  local text = shown_grant(grant, grant.expires_at) .. ',"request":' .. quoted(grant.request)
    .. ',"call":' .. quoted(grant.call) .. '}'
  redis.call('HSET', lock.hash, 'h:' .. grant.token, text, 'g:' .. grant.request, grant.token)
  redis.call('ZADD', lock.ends, integer(grant.expires_at), grant.token)
  return text
end

-- Calls of one request that are remembered.
local calls_max = 4

-- Adds a call that waits for the turn of a waiter, or removes it. Whether it was known.
local function attend(waiter, token, is_there)
  local calls, was_known = {}, false
  for _, known in ipairs(waiter.calls) do
    if known == token then
      was_known = true
    else
      calls[#calls + 1] = known
    end
  end
  if is_there then
    calls[#calls + 1] = token
    if #calls > calls_max then
      table.remove(calls, 1)
    end
  end
  waiter.calls = calls
  return was_known
end

local function write_waiter(lock, waiter)
  lock.waiter = nil
  local calls = {}
  for index, token in ipairs(waiter.calls) do
    calls[index] = quoted(token)
  end
  redis.call('HSET', lock.hash, 'w:' .. waiter.request,
    '{"request":' .. quoted(waiter.request) .. ',"owner":' .. quoted(waiter.owner) .. ',"mode":"' .. waiter.mode
    .. '","calls":[' .. table.concat(calls, ',') .. '],"since":' .. integer(waiter.since)
    .. ',"alive_until":' .. integer(waiter.alive_until) .. '}')
  redis.call('ZADD', lock.silences, integer(waiter.alive_until), waiter.request)
end

local function leave(lock, asked)
  if redis.call('ZREM', lock.line, asked) == 1 then
    lock.waiter, lock.is_line_changed = nil, true
    redis.call('ZREM', lock.silences, asked)
    redis.call('HDEL', lock.hash, 'w:' .. asked)
  end
end

-- One call looks for its request no more. The place is free when no other call does.
local function leave_by(lock, asked, token)
  local waiter = read_waiter(lock, asked)
  if waiter and attend(waiter, token, false) then
    if #waiter.calls == 0 then
      leave(lock, asked)
    else
      write_waiter(lock, waiter)
    end
  end
end

local function end_hold(lock, grant, at, ending)
  lock.holder, lock.is_hold_changed = nil, true
  redis.call('HDEL', lock.hash, 'h:' .. grant.token, 'g:' .. grant.request)
  redis.call('ZREM', lock.order, grant.token)
  redis.call('ZREM', lock.ends, grant.token)
  note(lock, grant, at, ending)
end

-- Ends leases that have expired, and drops waiters that are offline.
local function purge(lock)
  for _, grant in ipairs(overdue(lock)) do
    end_hold(lock, grant, grant.expires_at, expired)
  end
  for _, asked in ipairs(redis.call('ZRANGEBYSCORE', lock.silences, '-inf', integer(now))) do
    leave(lock, asked)
  end
end

-- Whether one more in this mode could hold it.
local function fits(lock, mode)
  if is_foreign(lock) then
    return false
  end
  local holder = first_holder(lock)
  return not holder
    or mode == 'shared' and holder.mode == 'shared' and redis.call('ZCARD', lock.order) < limits.sharing_max
end

-- The request of the first in line, if it would be granted now.
local function whose_turn(lock)
  local first = first_waiter(lock)
  return first and fits(lock, first.mode) and first.request or false
end

-- The latest moment in a list of moments.
local function last_of(list)
  return tonumber(redis.call('ZRANGE', list, -1, -1, 'WITHSCORES')[2] or '0')
end

-- When its last lease ends, or zero.
local function held_until(lock)
  local holder = first_holder(lock)
  if not holder then
    return 0
  end
  return holder.mode == 'shared' and last_of(lock.ends) or holder.expires_at
end

-- The value that people read: of those who share it, the one whose hold ends last stands first, because no other program may touch
-- the lock until then.
local function visible_text(lock)
  local first = first_holder(lock)
  if first.mode == 'shared' then
    local token = redis.call('ZRANGE', lock.ends, -1, -1)[1]
    first = read_grant(lock, token) or damaged('hold')
  end
  local text = shown_grant(first, first.expires_at)
  if first.mode == 'shared' then
    local holders = {}
    for index, token in ipairs(redis.call('ZRANGE', lock.order, 0, holders_shown_max - 1)) do
      local grant = read_grant(lock, token) or damaged('hold')
      holders[index] = shown_grant(grant, grant.expires_at) .. '}'
    end
    text = text .. ',"holders":[' .. table.concat(holders, ',') .. ']'
  end
  return text .. '}'
end

-- Shows who holds it. A value that is not ours is neither changed nor deleted.
local function save_visible(lock, ends_at)
  if is_foreign(lock) then
    return
  end
  if ends_at == 0 then
    if lock.visible then
      redis.call('DEL', visible_name(lock))
    end
    if lock.shown then
      redis.call('HDEL', lock.hash, 'shown')
    end
    return
  end
  local text = visible_text(lock)
  if text ~= lock.visible then
    show(visible_name(lock), text, ends_at - now)
    redis.call('HSET', lock.hash, 'shown', text)
  end
end

local function save_waiting(id, waiting)
  local before = tonumber(redis.call('HGET', waiting_counts, id) or '0')
  if waiting == before then
    return
  end
  redis.call('HINCRBY', waiting_counts, '', integer(waiting - before))
  if waiting > 0 then
    redis.call('HSET', waiting_counts, id, integer(waiting))
  else
    redis.call('HDEL', waiting_counts, id)
  end
end

local function save_listing(id, since)
  local before = redis.call('HGET', listed_since, id)
  if before and tonumber(before) ~= since then
    redis.call('ZREM', listed, sortable(tonumber(before)) .. '/' .. id)
    redis.call('HDEL', listed_since, id)
  end
  if since and tonumber(before) ~= since then
    redis.call('ZADD', listed, 0, sortable(since) .. '/' .. id)
    redis.call('HSET', listed_since, id, integer(since))
  end
end

-- What no call touches any more expires by itself: a lock with its history, and the lists of a home after its last lock.
-- All keys are given so long at once, with an hour to spare; until that hour is over, only those that may be new.
local spare = 3600000
local function let_expire(lock, lasts)
  if not is_own_clock then
    return
  end
  local left = redis.call('PTTL', lock.hash)
  local names, home = {}, {}
  if left < lasts then
    left = lasts + spare
    names = { lock.hash, lock.order, lock.ends, lock.line, lock.silences, lock.history }
    home = { sweeps, listed, listed_since, waiting_counts }
  else
    if lock.is_hold_changed then
      names, home = { lock.order, lock.ends, lock.history }, { listed, listed_since }
    end
    if lock.is_line_changed then
      names[#names + 1], names[#names + 2], home[#home + 1] = lock.line, lock.silences, waiting_counts
    end
  end
  for _, name in ipairs(names) do
    redis.call('PEXPIRE', name, integer(left))
  end
  if #home > 0 then
    local longest = integer(math.max(left, redis.call('PTTL', sweeps)))
    for _, name in ipairs(home) do
      redis.call('PEXPIRE', name, longest)
    end
  end
end

local function save(lock)
  local waiting = redis.call('ZCARD', lock.line)
  if not lock.is_known and lock.events == 0 and waiting == 0 then
    return
  end
  if lock.is_hold_changed or lock.is_line_changed then
    redis.call('HSET', lock.hash, 'since', integer(lock.since), 'fence', integer(lock.fence),
      'ticket', integer(lock.ticket), 'events', integer(lock.events))
  end
  local ends_at = held_until(lock)
  local alive_until = ends_at
  if waiting > 0 then
    alive_until = math.max(ends_at, last_of(lock.silences))
  end
  if lock.is_line_changed then
    save_waiting(lock.id, waiting)
  end
  if lock.is_hold_changed then
    save_listing(lock.id, ends_at > 0 and lock.since or nil)
  end
  redis.call('ZADD', sweeps, integer(alive_until > 0 and alive_until or now + limits.history_kept), lock.id)
  save_visible(lock, ends_at)
  let_expire(lock, math.max(alive_until - now, 0) + limits.history_kept)
end

-- Mints the fence in the same step as the grant: a tenant's, or for a stage the lock's own.
local function mint(lock)
  if lock_kind == 'stage' then
    return math.max(lock.fence + 1, now * 1000, header.fence_floor + 1)
  end
  return mint_fence()
end
