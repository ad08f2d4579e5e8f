-- A worker on the bus says what it can do. What it last said about itself stays until it says something else: above all
-- which tenant it serves.
local worker, handshake, workers_max = argument(), argument(), number()
if not has_room(worker, workers_max) then
  return refuse(workers_max)
end
redis.call('HSET', key('sys:registry:handshakes'), worker, handshake)
redis.call('ZADD', key('sys:registry:seen'), integer(now), worker)
return { 'ok' }
