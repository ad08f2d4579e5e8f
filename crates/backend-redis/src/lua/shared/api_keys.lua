-- API keys: each under its id, with the store's time before its document.
local api_keys = key('sys:keys')

-- When it was made, and its document.
local function read_api_key(id)
  local text = redis.call('HGET', api_keys, id)
  if text then
    return string.match(text, '^(%d+) (.*)$')
  end
end

local function write_api_key(id, created_at, document)
  redis.call('HSET', api_keys, id, created_at .. ' ' .. document)
end

-- Counted only where a tenant can have reached its bound.
local function tenant_has_enough(tenant)
  if not tenant or redis.call('HLEN', api_keys) < limits.keys_per_tenant_max then
    return false
  end
  local count = 0
  for _, text in ipairs(redis.call('HVALS', api_keys)) do
    local scope = cjson.decode(string.match(text, '^%d+ (.*)$')).scope
    if type(scope) == 'table' and scope.tenant == tenant then
      count = count + 1
    end
  end
  return count >= limits.keys_per_tenant_max
end

-- Why a key cannot be added, if it cannot.
local function why_not_added(id, tenant)
  if read_api_key(id) then
    return 'there is a key ' .. id .. ' already'
  end
  if redis.call('HLEN', api_keys) >= limits.keys_max then
    return 'there are ' .. integer(limits.keys_max) .. ' keys; revoke one first'
  end
  if tenant_has_enough(tenant) then
    return 'the tenant has ' .. integer(limits.keys_per_tenant_max) .. ' keys; revoke one first'
  end
end
