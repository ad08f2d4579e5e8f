-- The lock on a run, readable by GET: who holds it, under which fence, until when. A value that is not ours is held.
local function read_lock(run)
  local value = redis.pcall('GET', lock_prefix .. run)
  if not value then
    return nil
  end
  local is_json, lock = pcall(cjson.decode, value)
  if is_json and type(lock) == 'table' and type(lock.owner) == 'string' and type(lock.fence) == 'number'
    and type(lock.expires_at) == 'number' then
    return lock
  end
  return { owner = '', token = '', fence = 0, expires_at = math.huge }
end

local function write_lock(run, owner, fence, lease)
  local value = '{"owner":"' .. owner .. '","token":"' .. request .. '","fence":' .. integer(fence)
    .. ',"expires_at":' .. integer(now + lease) .. '}'
  if is_own_clock then
    redis.call('SET', lock_prefix .. run, value, 'PX', integer(lease))
  else
    -- Redis would let it end by another clock than the one that is asked.
    redis.call('SET', lock_prefix .. run, value)
  end
end

local function release_lock(run, fence)
  local lock = read_lock(run)
  if lock and lock.fence == fence then
    redis.call('DEL', lock_prefix .. run)
  end
end
