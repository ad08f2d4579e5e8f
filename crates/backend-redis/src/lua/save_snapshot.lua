-- Writes down which workers are there, for the live holder of the writer's lock under its fence.
local name, fence, snapshot = argument(), number(), argument()
return decide(function(lock)
  local token = redis.call('ZRANGEBYSCORE', lock.order, integer(fence), integer(fence))[1]
  if lock.fence ~= fence or not live_grant(lock, token) then
    return { 'fenced', integer(lock.fence) }
  end
  redis.call('SET', name, snapshot)
  return { 'ok' }
end)
