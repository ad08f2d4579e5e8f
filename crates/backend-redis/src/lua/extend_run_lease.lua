-- needs: run_lock
-- Extends the lease on a run. One that has expired, or is another instance's, cannot be revived.
local run, fence = call.run, call.fence
local found = read_fields(key('wf:run', run), 'version', 'fence', 'lease')
if not found.version then
  return missing()
end
local lock = read_lock(run)
if tonumber(found.lease or '0') ~= fence or not lock or lock.fence ~= fence or lock.expires_at <= now then
  return fenced(found.lease or found.fence)
end
write_lock(run, lock, call.lease)
return answer()
