-- needs: remembered, limit_change
-- Pauses a limit, or resumes it. The tenant itself has the name of the built-in limit.
local done = answered_before()
if done then
  return done
end
local is_tenant = claim_of(call.name, '') == tenant_runs
local hash = is_tenant and key('wf:tenant') or key('wf:limit', call.name)
if not is_tenant and redis.call('EXISTS', hash) == 0 then
  return missing()
end
local revision = next_limits_revision()
if call.pause then
  redis.call('HSET', hash, 'paused', call.pause)
else
  redis.call('HDEL', hash, 'paused')
end
if not is_tenant then
  redis.call('HSET', hash, 'revision', revision)
end
return change_done(revision)
