-- A worker on HTTP is given no new jobs from now on, or is again.
local worker, is_draining = argument(), argument()
local hash = key('wf:worker', worker)
if redis.call('EXISTS', hash) == 0 then
  return { 'missing' }
end
redis.call('HSET', hash, 'is_draining', is_draining)
return { 'ok' }
