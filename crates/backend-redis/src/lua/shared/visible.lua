-- Locks that people read with GET, under names that they know. On a Cluster such a name carries the tenant's tag.
local function lock_key(name, suffix)
  if is_cluster then
    return lock_prefix .. name .. ':' .. tag .. ':' .. suffix
  end
  return lock_prefix .. name .. ':' .. suffix
end

-- A lease as its lock tells it. Names of instances and workers, and ids of requests, need no escaping.
local function lease_text(owner, token, fence, expires_at)
  return '{"owner":"' .. owner .. '","token":"' .. token .. '","fence":' .. fence
    .. ',"expires_at":' .. expires_at .. '}'
end

-- Writes a lock that ends by itself. On a test's clock it does not: Redis would let it end by another one.
local function show(name, value, lasts)
  if is_own_clock then
    redis.call('SET', name, value, 'PX', integer(math.max(lasts, 1)))
  else
    redis.call('SET', name, value)
  end
end
