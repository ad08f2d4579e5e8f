-- Releases the slot of a run, if it holds one. A second time does nothing.
local function release_slot(run)
  if redis.call('SREM', key('wf:runs:active'), run) == 0 then
    return
  end
  local tenant = key('wf:tenant')
  local flow = redis.call('HMGET', tenant, 'freed_at', 'interval_ms')
  if flow[1] then
    local since = math.max(now - tonumber(flow[1]), 0)
    local interval = since
    if flow[2] then
      -- A quarter of the newest: follows a change within a few runs without jumping at each.
      interval = math.floor((tonumber(flow[2]) * 3 + since) / 4)
    end
    redis.call('HSET', tenant, 'interval_ms', integer(interval))
  end
  redis.call('HSET', tenant, 'freed_at', integer(now))
end
