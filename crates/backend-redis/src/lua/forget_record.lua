-- Removes a worker on HTTP, unless it was seen since.
local worker, unless_after = argument(), number()
local seen_at = redis.call('HGET', key('wf:worker', worker), 'last_seen_at')
if seen_at and tonumber(seen_at) <= unless_after then
  redis.call('UNLINK', key('wf:worker', worker))
  redis.call('ZREM', key('wf:workers'), worker)
end
return { 'ok' }
