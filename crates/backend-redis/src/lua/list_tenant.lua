-- Puts a tenant into the list of all, unless there are as many as there may be.
local list = key('sys:tenants')
if redis.call('ZSCORE', list, call.tenant) then
  return answer()
end
if redis.call('ZCARD', list) >= call.most then
  return quota_reached('tenants', call.most)
end
redis.call('ZADD', list, 0, call.tenant)
return answer()
