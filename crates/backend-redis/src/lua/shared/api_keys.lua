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

local function tenant_of(document)
  local scope = cjson.decode(document).scope
  return type(scope) == 'table' and scope.tenant or nil
end

-- The keys of a tenant are counted once a minute at most; in between, the count follows what is made and removed.
local count_kept_for = 60000

local function count_of(tenant)
  return key('sys:keys:count', tenant)
end

local function count_one(tenant, by)
  if tenant and redis.call('EXISTS', count_of(tenant)) == 1 then
    redis.call('INCRBY', count_of(tenant), by)
  end
end

local function keys_of(tenant)
  local known = redis.call('GET', count_of(tenant))
  if known then
    return tonumber(known)
  end
  local count = 0
  for _, text in ipairs(redis.call('HVALS', api_keys)) do
    if tenant_of(string.match(text, '^%d+ (.*)$')) == tenant then
      count = count + 1
    end
  end
  redis.call('SET', count_of(tenant), integer(count), 'PX', integer(count_kept_for))
  return count
end

-- Counted only where a tenant can have reached its bound.
local function tenant_has_enough(tenant)
  return tenant and redis.call('HLEN', api_keys) >= limits.keys_per_tenant_max
    and keys_of(tenant) >= limits.keys_per_tenant_max
end

local function remove_api_key(id)
  local _, document = read_api_key(id)
  if document then
    count_one(tenant_of(document), -1)
  end
  return redis.call('HDEL', api_keys, id)
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
