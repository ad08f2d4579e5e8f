-- needs: failures
-- A lock as it is kept: one hash with its numbers, its holders ('h:' and the token), which request has which token
-- ('g:' and the request), its waiters ('w:' and the request), and how holds ended ('e:' and the token: number of the
-- event, fence, end). Beside it, in order: tokens by fence, tokens by the end of their lease, requests by their place in
-- line and by the moment from which they count as gone, and what has happened.
--
-- The header has the lock's name in its home, and its kind ('stage' or 'admission'; else it is a user's).
local own_id, lock_kind = header.lock, header.lock_kind or 'user'

local function damaged(what)
  error('a ' .. what .. ' of the lock is not ours')
end

local function whole(text, otherwise)
  if not text then
    return otherwise
  end
  return tonumber(text) or damaged('number')
end

local function open_lock(id)
  local lock = {
    id = id,
    hash = key('wf:lock', id),
    order = key('wf:lock:order', id),
    ends = key('wf:lock:ends', id),
    line = key('wf:lock:line', id),
    silences = key('wf:lock:silences', id),
    history = key('wf:lock:history', id),
  }
  local found = redis.call('HMGET', lock.hash, 'since', 'fence', 'ticket', 'events', 'shown')
  lock.is_known = found[1] ~= false
  lock.since, lock.fence = whole(found[1], now), whole(found[2], 0)
  lock.ticket, lock.events = whole(found[3], 0), whole(found[4], 0)
  lock.shown = found[5]
  return lock
end

-- JSON of a text. Slashes stay as people write them.
local function quoted(text)
  return (string.gsub(cjson.encode(text), '\\/', '/'))
end

local grant_fields = { owner = 'string', mode = 'string', token = 'string', request = 'string', call = 'string',
  fence = 'number', acquired_at = 'number', expires_at = 'number' }
local waiter_fields = { request = 'string', owner = 'string', mode = 'string', calls = 'table', since = 'number',
  alive_until = 'number' }

local function decoded(text, fields, what)
  local is_json, value = pcall(cjson.decode, text)
  if not is_json or type(value) ~= 'table' then
    damaged(what)
  end
  for field, expected in pairs(fields) do
    if type(value[field]) ~= expected then
      damaged(what)
    end
  end
  return value
end

-- The hold under this token, whether or not it has expired.
local function read_grant(lock, token)
  local text = redis.call('HGET', lock.hash, 'h:' .. token)
  return text and decoded(text, grant_fields, 'hold')
end

local function live_grant(lock, token)
  local grant = token and read_grant(lock, token)
  return grant and now < grant.expires_at and grant
end

local function granted_to(lock, asked)
  return live_grant(lock, redis.call('HGET', lock.hash, 'g:' .. asked))
end

local function read_waiter(lock, asked)
  local text = redis.call('HGET', lock.hash, 'w:' .. asked)
  return text and decoded(text, waiter_fields, 'waiter')
end

local function live_waiter(lock, asked)
  local waiter = read_waiter(lock, asked)
  return waiter and now < waiter.alive_until and waiter
end

-- Leases that have expired and are not recorded as such yet, in the order of their expiry.
local function overdue(lock)
  local grants = {}
  for index, token in ipairs(redis.call('ZRANGEBYSCORE', lock.ends, '-inf', integer(now))) do
    grants[index] = read_grant(lock, token) or damaged('hold')
  end
  table.sort(grants, function(one, other)
    if one.expires_at ~= other.expires_at then
      return one.expires_at < other.expires_at
    end
    return one.fence < other.fence
  end)
  return grants
end

local expired = '{"cause":"expired"}'

-- An event of the history. Without an end, the lease began.
local function event_of(grant, at, ending)
  local text = '{"at":' .. integer(at) .. ',"owner":' .. quoted(grant.owner) .. ',"mode":"' .. grant.mode
    .. '","token":' .. quoted(grant.token) .. ',"fence":' .. integer(grant.fence)
  if ending then
    text = text .. ',"end":' .. ending
  end
  return text .. '}'
end

-- Runs a verb on the lock that the call is about.
local function decide(verb)
  return guarded(function()
    return verb(open_lock(own_id))
  end)
end
