-- needs: remembered, limit_change
-- Deletes a named limit. Runs that wait for it are re-evaluated.
local done = answered_before()
if done then
  return done
end
local hash = key('wf:limit', call.name)
local before = read_fields(hash, 'revision')
if not before.revision then
  return missing()
end
if call.replaces and call.replaces ~= tonumber(before.revision) then
  return changed(before.revision)
end
redis.call('ZREM', key('wf:limits'), call.name)
redis.call('UNLINK', hash)
return change_done(next_limits_revision())
