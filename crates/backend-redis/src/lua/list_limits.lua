-- All named limits of a tenant, by name, those that it has from the system included. They are few.
local tenant = read_fields(key('wf:tenant'), 'limits_revision', 'system_revision', 'paused')
local listed, most = {}, limits.limits_max + limits.system_limits_max
for index, name in ipairs(redis.call('ZRANGE', key('wf:limits'), '-', '+', 'BYLEX', 'LIMIT', 0, most)) do
  local found = read_fields(key('wf:limit', name), 'document', 'revision', 'saved_at', 'paused')
  found.name = name
  listed[index] = found
end
return answer({ revision = tenant.limits_revision or 0, system = tenant.system_revision or 0, limits = listed,
  paused = tenant.paused })
