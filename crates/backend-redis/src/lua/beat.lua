-- A worker on the bus says how it is.
local worker, beat, workers_max = argument(), argument(), number()
if not has_room(worker, workers_max) then
  return refuse(workers_max)
end
redis.call('HSET', key('sys:registry:beats'), worker, beat)
redis.call('ZADD', key('sys:registry:seen'), integer(now), worker)
return { 'ok' }
