-- needs: status, inbox
-- Events that are sent to keys. `wf:events:waiting` has `<name>/<key>/<run>/<step>` for each step that waits, `wf:run:waits`
-- those of one run. `wf:event` is an event with its `fingerprint`, and, as long as some run may still get it, with its text
-- and `place` (its name and key), and `after` (the last run that got it). `wf:events:kept` has `<place>/<time>/<event>` for
-- those that wait for a step, and `wf:events:due` when each is delivered on, or forgotten.
--
-- A run got one more event.
local function count_event(run, bytes)
  local hash = key('wf:run', run)
  redis.call('HINCRBY', hash, 'events', 1)
  redis.call('HINCRBY', hash, 'event_bytes', integer(bytes))
end

-- The members of a sorted set that begin so.
local function beginning(name, prefix, count)
  return redis.call('ZRANGE', key(name), '[' .. prefix .. '/', '(' .. prefix .. '0', 'BYLEX', 'LIMIT', 0, count)
end

-- Delivers an event to some of the runs that wait, behind `after`. Returns to how many, and the last of them if there are
-- more.
local function spread(place, after, text, bytes)
  local runs, last = 0, after
  while true do
    -- '0' is the character after '/': the steps of one run get one event.
    local from = last and '[' .. place .. '/' .. last .. '0' or '[' .. place .. '/'
    local member = redis.call('ZRANGE', key('wf:events:waiting'), from, '(' .. place .. '0', 'BYLEX', 'LIMIT', 0, 1)[1]
    if not member then
      return runs, nil
    end
    if runs >= limits.spread_at_once_max then
      return runs, last
    end
    local run = string.match(string.sub(member, #place + 2), '^[^/]+')
    local status = redis.call('HGET', key('wf:run', run), 'status')
    if status and not final[status] then
      count_event(run, bytes)
      post(run, text)
    end
    runs, last = runs + 1, run
  end
end

local function keep_bytes(bytes)
  redis.call('HINCRBY', key('wf:tenant'), 'keyed_event_bytes', integer(bytes))
end

-- What no run may get any more is remembered by its id alone.
local function forget_text(event)
  local hash = key('wf:event', event)
  redis.call('HDEL', hash, 'text', 'bytes', 'place', 'after')
end

local function begin_wait(run, place, member)
  redis.call('ZADD', key('wf:events:waiting'), 0, member)
  redis.call('SADD', key('wf:run:waits', run), member)
  for _, kept in ipairs(beginning('wf:events:kept', place, -1)) do
    redis.call('ZREM', key('wf:events:kept'), kept)
    local event = string.sub(kept, #place + 18)
    local found = read_fields(key('wf:event', event), 'text', 'bytes')
    if found.text then
      keep_bytes(-tonumber(found.bytes))
      forget_text(event)
      count_event(run, tonumber(found.bytes))
      post(run, found.text)
    end
  end
end

local function end_wait(run, member)
  redis.call('ZREM', key('wf:events:waiting'), member)
  redis.call('SREM', key('wf:run:waits', run), member)
end

-- The run is deleted: nothing of it waits.
local function end_waits(run)
  for _, member in ipairs(redis.call('SMEMBERS', key('wf:run:waits', run))) do
    redis.call('ZREM', key('wf:events:waiting'), member)
  end
  redis.call('UNLINK', key('wf:run:waits', run))
end
