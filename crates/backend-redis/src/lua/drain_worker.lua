-- A worker on HTTP gets no new jobs from now on, or gets them again.
local hash = key('wf:worker', call.worker)
if redis.call('EXISTS', hash) == 0 then
  return missing()
end
redis.call('HSET', hash, 'is_draining', call.is_draining and '1' or '0')
return answer()
