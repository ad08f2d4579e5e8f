-- needs: registry
-- Saves the heartbeat of a worker on NATS. Answers with the one before.
local worker = call.worker
if not has_room(worker) then
  return is_full()
end
local before = redis.call('HGET', key('sys:registry:beats'), worker)
redis.call('HSET', key('sys:registry:beats'), worker, call.beat)
redis.call('ZADD', key('sys:registry:seen'), integer(now), worker)
return answer(before)
