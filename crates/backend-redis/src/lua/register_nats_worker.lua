-- needs: registry
-- Saves what a worker on NATS can do. Its last heartbeat stays until the next one: above all which tenant it serves.
local worker = call.worker
if not has_room(worker, call.workers_max) then
  return is_full(call.workers_max)
end
redis.call('HSET', key('sys:registry:handshakes'), worker, call.handshake)
redis.call('ZADD', key('sys:registry:seen'), integer(now), worker)
return answer()
