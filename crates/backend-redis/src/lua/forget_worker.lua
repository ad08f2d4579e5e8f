-- Removes a worker on HTTP, unless it was seen since.
local seen_at = redis.call('HGET', key('wf:worker', call.worker), 'last_seen_at')
if seen_at and tonumber(seen_at) <= call.unless_after then
  redis.call('UNLINK', key('wf:worker', call.worker))
  redis.call('ZREM', key('wf:workers'), call.worker)
end
return answer()
