-- Extends the hold on a run. One that has run out, or is somebody else's, cannot be revived.
local run, fence, lease = argument(), number(), number()
local found = redis.call('HMGET', key('wf:run', run), 'version', 'fence', 'lease')
if not found[1] then
  return { 'missing' }
end
local lock = read_lock(run)
if tonumber(found[3] or '0') ~= fence or not lock or lock.fence ~= fence or lock.expires_at <= now then
  return { 'fenced', found[3] or found[2] }
end
write_lock(run, lock, lease)
return { 'ok' }
