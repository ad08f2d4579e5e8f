-- What every script begins with: who is asked for, and what time it is.
--
-- ARGV: 1 prefix of all keys, 2 the hash tag of the tenant, or of what belongs to none, 3 prefix of locks that people
-- read, 4 the time in milliseconds (empty: the server's own), 5 the fence that the next one must exceed, 6 the id of
-- this request, 7 whether it was asked before, 8 whether this is a Cluster. What follows is the verb's own and is read
-- with argument().
--
-- Documents are opaque here: Lua would round their numbers and turn empty lists into objects. What a script must know
-- of them stands in fields beside them. A number leaves only through integer(): '..' and cjson keep 14 digits.
local prefix, tag, lock_prefix = ARGV[1], ARGV[2], ARGV[3]
local fence_floor = tonumber(ARGV[5])
local request, is_repeat, is_cluster = ARGV[6], ARGV[7] == '1', ARGV[8] == '1'
local position = 8

local function argument()
  position = position + 1
  return ARGV[position]
end

local function number()
  return tonumber(argument())
end

local function integer(value)
  return string.format('%.0f', value)
end

-- A time that sorts as text.
local function sortable(time)
  return string.format('%015.0f', time)
end

local is_own_clock = ARGV[4] == ''
local now
if is_own_clock then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
else
  now = tonumber(ARGV[4])
end

-- A key of this tenant. All of them share its hash tag, so they live on one node.
local function key(name, suffix)
  if suffix then
    return prefix .. name .. ':' .. tag .. ':' .. suffix
  end
  return prefix .. name .. ':' .. tag
end

-- An answer stops growing there: Redis does nothing else while it puts one together, and it must arrive in time.
local answer_bytes_max = 4 * 1024 * 1024
