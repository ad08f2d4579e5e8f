-- needs: run_lock
-- The lock on the run under the caller's fence, or how its call is refused. One that has expired, or is another
-- instance's, cannot be revived.
local function held_lease()
  local found = read_fields(key('wf:run', call.run), 'version', 'fence', 'lease')
  if not found.version then
    return nil, missing()
  end
  local lock = read_lock(call.run)
  if tonumber(found.lease or '0') ~= call.fence or not lock or lock.fence ~= call.fence or lock.expires_at <= now then
    return nil, fenced(found.lease or found.fence)
  end
  return lock, nil
end
