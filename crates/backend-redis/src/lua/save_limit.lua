-- needs: remembered, limit_change
-- Saves a named limit. Its numbers are in force for the groups that it has, too.
local done = answered_before()
if done then
  return done
end
local hash = key('wf:limit', call.name)
local before = read_fields(hash, 'revision')
if limits_revision() ~= call.book or call.replaces and call.replaces ~= tonumber(before.revision or '0') then
  return changed(before.revision)
end
if not before.revision and redis.call('ZCARD', key('wf:limits')) - #system_limits() >= limits.limits_max then
  return quota_reached('limits', limits.limits_max)
end
redis.call('ZADD', key('wf:limits'), 0, call.name)
local revision = next_limits_revision()
write_limit(hash, call, revision, integer(now))
return change_done(revision)
