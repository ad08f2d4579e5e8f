-- All named limits of a tenant, by name. They are few.
local tenant = read_fields(key('wf:tenant'), 'limits_revision', 'paused')
local listed = {}
for index, name in ipairs(redis.call('ZRANGE', key('wf:limits'), '-', '+', 'BYLEX', 'LIMIT', 0, limits.limits_max)) do
  local found = read_fields(key('wf:limit', name), 'document', 'revision', 'saved_at', 'paused')
  found.name = name
  listed[index] = found
end
return answer({ revision = tenant.limits_revision or 0, limits = listed, paused = tenant.paused })
