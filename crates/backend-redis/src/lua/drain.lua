-- A worker on the bus is given no new jobs from now on, or is again.
local worker, is_draining = argument(), argument() == '1'
if not redis.call('ZSCORE', key('sys:registry:seen'), worker) then
  return { 'missing' }
end
if is_draining then
  redis.call('SADD', key('sys:registry:draining'), worker)
else
  redis.call('SREM', key('sys:registry:draining'), worker)
end
return { 'ok' }
