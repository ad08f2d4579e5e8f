-- Replaces a document if the version is the expected one. The same call again gives the same answer.
local hash, expected = key('sys:' .. call.name), call.expected
local before = read_fields(hash, 'version', 'text')
local current = tonumber(before.version or '0')
if current ~= expected then
  return answer(current == expected + 1 and before.text == call.text)
end
redis.call('HSET', hash, 'version', integer(expected + 1), 'text', call.text)
return answer(true)
