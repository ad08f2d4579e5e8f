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

-- Counted only where a tenant can have reached its bound.
local function tenant_has_enough()
  if not call.tenant or redis.call('HLEN', hash) < limits.keys_per_tenant_max then
    return false
  end
  local count = 0
  for _, text in ipairs(redis.call('HVALS', hash)) do
    local scope = cjson.decode(string.match(text, '^%d+ (.*)$')).scope
    if type(scope) == 'table' and scope.tenant == call.tenant then
      count = count + 1
    end
  end
  return count >= limits.keys_per_tenant_max
end

if tenant_has_enough() then
  return conflict('the tenant has ' .. integer(limits.keys_per_tenant_max) .. ' keys; revoke one first')
end
redis.call('HSET', hash, call.id, integer(now) .. ' ' .. call.document)
return answer(now)
