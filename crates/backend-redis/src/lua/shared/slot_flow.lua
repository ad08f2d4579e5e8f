-- How fast slots come free, after one more.
local function flow_after(flow)
  if not flow.freed_at then
    return { freed_at = integer(now) }
  end
  local interval = math.max(now - tonumber(flow.freed_at), 0)
  if flow.interval_ms then
    -- A quarter of the newest: follows a change within a few runs without jumping at each.
    interval = math.floor((tonumber(flow.interval_ms) * 3 + interval) / 4)
  end
  return { freed_at = integer(now), interval_ms = integer(interval) }
end

-- Releases the tenant's slot of a run. Whether it had one that other runs may wait for.
local function release_tenant_slot(run)
  if redis.call('SREM', key('wf:runs:active'), run) == 0 then
    return false
  end
  local found = read_fields(key('wf:tenant'), 'freed_at', 'interval_ms', 'arrivals')
  local flow = flow_after(found)
  if flow.interval_ms then
    redis.call('HSET', key('wf:tenant'), 'freed_at', flow.freed_at, 'interval_ms', flow.interval_ms)
  else
    redis.call('HSET', key('wf:tenant'), 'freed_at', flow.freed_at)
  end
  return found.arrivals ~= nil
end
