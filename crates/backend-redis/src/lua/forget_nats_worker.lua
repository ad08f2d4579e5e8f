-- Removes a worker on NATS, unless it was heard since.
local worker = call.worker
local seen_at = redis.call('ZSCORE', key('sys:registry:seen'), worker)
if seen_at and tonumber(seen_at) <= call.unless_after then
  redis.call('ZREM', key('sys:registry:seen'), worker)
  redis.call('HDEL', key('sys:registry:handshakes'), worker)
  redis.call('HDEL', key('sys:registry:beats'), worker)
  redis.call('SREM', key('sys:registry:draining'), worker)
end
return answer()
