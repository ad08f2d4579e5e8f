-- Keeps a new API key, with the store's time before it.
local id, document, keys_max = argument(), argument(), number()
local hash = key('sys:keys')
local before = redis.call('HGET', hash, id)
if before then
  local created_at, kept = string.match(before, '^(%d+) (.*)$')
  if is_repeat and kept == document then
    return { 'ok', created_at }
  end
  return { 'conflict', 'there is a key ' .. id .. ' already' }
end
if redis.call('HLEN', hash) >= keys_max then
  return { 'conflict', 'there are ' .. integer(keys_max) .. ' keys; revoke one first' }
end
redis.call('HSET', hash, id, integer(now) .. ' ' .. document)
return { 'ok', integer(now) }
