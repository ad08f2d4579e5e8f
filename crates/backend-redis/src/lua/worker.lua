local worker = argument()
local found = redis.call('HMGET', key('wf:worker', worker), 'topics', 'capabilities', 'first_seen_at', 'last_seen_at',
  'is_draining')
if not found[1] then
  return { 'missing' }
end
return { 'ok', worker, found[1], found[2], found[3], found[4], found[5] }
