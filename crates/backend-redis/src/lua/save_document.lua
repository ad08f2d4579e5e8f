-- Replaces a document if the version is the expected one. Said again by whoever did it, it is done.
local hash, expected, text = key(argument()), number(), argument()
local before = redis.call('HMGET', hash, 'version', 'text')
local current = tonumber(before[1] or '0')
if current ~= expected then
  local is_ours = current == expected + 1 and before[2] == text
  return { 'ok', is_ours and '1' or '0' }
end
redis.call('HSET', hash, 'version', integer(expected + 1), 'text', text)
return { 'ok', '1' }
