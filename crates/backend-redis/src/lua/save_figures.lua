-- Replaces what one process has counted of a roll-out.
local hash = key('sys:contention:figures', argument())
local instance, figures, members_max = argument(), argument(), number()
if redis.call('HEXISTS', hash, instance) == 0 and redis.call('HLEN', hash) >= members_max then
  return { 'ok', '0' }
end
redis.call('HSET', hash, instance, figures)
return { 'ok', '1' }
