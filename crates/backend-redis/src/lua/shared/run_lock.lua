-- needs: visible
-- The lock on a run, readable by GET: who holds it, under which fence, until when. A value that is not ours is held.
local function read_lock(run)
  local value = redis.pcall('GET', lock_key('wf:run:lock', run))
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

local function write_lock(run, lock, lease)
  local value = lease_text(lock.owner, lock.token, integer(lock.fence), integer(now + lease))
  show(lock_key('wf:run:lock', run), value, lease)
end

local function release_lock(run, fence)
  local lock = read_lock(run)
  if lock and lock.fence == fence then
    redis.call('DEL', lock_key('wf:run:lock', run))
  end
end
