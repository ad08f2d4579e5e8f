-- A worker on the bus says how it is. What it said the last time.
local worker, beat, workers_max = argument(), argument(), number()
if not has_room(worker, workers_max) then
  return refuse(workers_max)
end
local before = redis.call('HGET', key('sys:registry:beats'), worker)
redis.call('HSET', key('sys:registry:beats'), worker, beat)
redis.call('ZADD', key('sys:registry:seen'), integer(now), worker)
return { 'ok', before }
