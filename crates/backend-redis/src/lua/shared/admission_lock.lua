-- The tenant's admission lock, as its holders see it. See `lock_record.lua`.
--
-- The last fence that it was granted under, and whether it is held under this one now.
local function admission_lock(fence)
  local id = '%admission'
  local last = tonumber(redis.call('HGET', key('wf:lock', id), 'fence') or '0')
  local token = redis.call('ZRANGEBYSCORE', key('wf:lock:order', id), integer(fence), integer(fence))[1]
  local ends_at = token and tonumber(redis.call('ZSCORE', key('wf:lock:ends', id), token))
  return last, last == fence and ends_at ~= nil and ends_at ~= false and now < ends_at
end
