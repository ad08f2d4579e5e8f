-- Saves a new API key, with the store's time before it. Answers with that time.
local hash = key('sys:keys')
local before = redis.call('HGET', hash, call.id)
if before then
  local created_at, document = string.match(before, '^(%d+) (.*)$')
  if is_repeat and document == call.document then
    return answer(created_at)
  end
  return conflict('there is a key ' .. call.id .. ' already')
end
if redis.call('HLEN', hash) >= limits.keys_max then
  return conflict('there are ' .. integer(limits.keys_max) .. ' keys; revoke one first')
end
redis.call('HSET', hash, call.id, integer(now) .. ' ' .. call.document)
return answer(now)
