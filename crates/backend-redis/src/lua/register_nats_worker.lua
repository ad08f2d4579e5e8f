-- needs: registry
-- Saves what a worker on NATS can do. Its last heartbeat stays until the next one: above all which tenant it serves.
local worker = call.worker
if not has_room(worker) then
  return is_full()
end
redis.call('HSET', key('sys:registry:handshakes'), worker, call.handshake)
redis.call('ZADD', key('sys:registry:seen'), integer(now), worker)
return answer()
