-- How fast slots come free, after one more: `model::tenant::SlotFlow`.
local function flow_after(flow)
  local since, releases, time = tonumber(flow.since), tonumber(flow.releases or 0), tonumber(flow.time or 0)
  if not since then
    return { since = integer(now), releases = integer(releases), time = integer(time) }
  end
  local gap = math.min(math.max(now - since, 0), 259200000)
  local function fade(sum)
    return math.floor(gap >= 60000 and sum / 2 or sum * 60000 / (60000 + gap))
  end
  return { since = integer(now), releases = integer(fade(releases) + 256), time = integer(fade(time) + gap * 256) }
end

local function flow_in(fields)
  return { since = fields.flow_since, releases = fields.flow_releases, time = fields.flow_time }
end

local function write_flow(hash, flow)
  redis.call('HSET', hash, 'flow_since', flow.since, 'flow_releases', flow.releases, 'flow_time', flow.time)
end

-- Releases the tenant's slot of a run. Whether it had one that other runs may wait for.
local function release_tenant_slot(run)
  if redis.call('SREM', key('wf:runs:active'), run) == 0 then
    return false
  end
  local hash = key('wf:tenant')
  local found = read_fields(hash, 'flow_since', 'flow_releases', 'flow_time', 'arrivals')
  write_flow(hash, flow_after(flow_in(found)))
  return found.arrivals ~= nil
end
