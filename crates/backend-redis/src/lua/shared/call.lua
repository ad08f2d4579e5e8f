-- What every script begins with: its arguments by name, the time, and how it answers.
--
-- The header of every call has: `prefix` of all keys, `tag` (the hash tag of the tenant, or of what belongs to none),
-- `lock_prefix` of locks that people read, `lock` and `lock_kind` (of a call about a lock), `now` in milliseconds
-- (absent: the server's own clock), `fence_floor` that the next fence must exceed, `request` (the id of this call),
-- `is_repeat` (it was sent before, and its answer was lost), `is_cluster`, and what the calling process knows: the
-- system's limits, which instances are gone, and which of its own leases are in doubt.
--
-- The call itself has the fields of the verb. Bounds of the contract stand in a script as `limits.<name>`.
--
-- Documents are opaque here: Lua would round their numbers and turn empty lists into objects. What a script must know
-- of them stands in fields beside them. In text a number is written by integer(): '..' and cjson keep 14 digits.
local header, call = cmsgpack.unpack(ARGV[1]), cmsgpack.unpack(ARGV[2]) or {}
local prefix, tag, lock_prefix = header.prefix, header.tag, header.lock_prefix
local request, is_repeat, is_cluster = header.request, header.is_repeat, header.is_cluster

local function integer(value)
  return string.format('%.0f', value)
end

-- A time that sorts as text.
local function sortable(time)
  return string.format('%015.0f', time)
end

local is_own_clock = not header.now
local now = header.now
if is_own_clock then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- A key of this tenant. All of them share its hash tag, so they live on one node.
local function key(name, suffix)
  if suffix then
    return prefix .. name .. ':' .. tag .. ':' .. suffix
  end
  return prefix .. name .. ':' .. tag
end

-- The run of a job, or of an approval.
local function run_of(job)
  return string.match(job, '^[^:]+')
end

-- Fields of a hash, by name. What is absent is nil.
local function read_fields(name, ...)
  local names, values, found = { ... }, redis.call('HMGET', name, ...), {}
  for index, field in ipairs(names) do
    found[field] = values[index] or nil
  end
  return found
end

-- A document that comes as its text before and after one time.
local function at_time(document, time)
  return document.before .. integer(time) .. document.after
end

-- An answer stops growing there: Redis does nothing else while it puts one together, and it must arrive in time.
local answer_bytes_max = 4 * 1024 * 1024

-- Keys of large texts that the answer names instead of having them. To make a text of Lua of a megabyte takes Redis a
-- millisecond, each time: the caller reads it by its key, and puts it between what stands before and after it.
local elsewhere = {}

local function text_at(name, before, after)
  elsewhere[#elsewhere + 1] = before and { name, before, after } or name
  return { elsewhere = #elsewhere }
end

-- Large texts that were sent ahead of the call, each with its bytes. What the script has not taken goes.
local sent = header.sent

local function drop_sent()
  for _, text in ipairs(sent) do
    redis.call('UNLINK', text[1])
  end
end

if sent then
  for _, text in ipairs(sent) do
    -- They are written from their end to their beginning.
    if redis.call('STRLEN', text[1]) ~= text[2] or redis.call('GETRANGE', text[1], 0, 0) == '\0' then
      drop_sent()
      return cmsgpack.pack({ refused = 'not_sent' })
    end
  end
end

-- The answer of a verb. What is false or nil is absent.
local function answer(values)
  if sent then
    drop_sent()
  end
  local packed = cmsgpack.pack(values or {})
  return elsewhere[1] and { packed, unpack(elsewhere) } or packed
end

local function missing()
  return answer({ refused = 'missing' })
end

-- The fence that is current, and the caller's.
local function fenced(current, held)
  return answer({ refused = 'fenced', current = current, held = held or call.fence })
end

local function conflict(reason)
  return answer({ refused = 'conflict', reason = reason })
end

-- There are as many of these as there may be.
local function quota_reached(quota, most)
  return answer({ refused = 'quota', quota = quota, most = most })
end
