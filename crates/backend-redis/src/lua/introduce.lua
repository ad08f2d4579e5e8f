-- A worker on the bus says what it can do. It has started anew: what it said before is over.
local worker, handshake, workers_max = argument(), argument(), number()
if not has_room(worker, workers_max) then
  return refuse(workers_max)
end
redis.call('HSET', key('sys:registry:handshakes'), worker, handshake)
redis.call('HDEL', key('sys:registry:beats'), worker)
redis.call('ZADD', key('sys:registry:seen'), integer(now), worker)
return { 'ok' }
