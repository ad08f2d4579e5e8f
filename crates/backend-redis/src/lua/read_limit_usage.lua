-- needs: groups, order
-- The busiest groups of a limit, or one of them. A bounded number is looked at.
local function view(group)
  local state = { live = group.live, queued = group.queued, paced_until = group.paced_until, replacing = group.replacing,
    slot_flow = group.slot_flow }
  if group.virtual_time then
    state.fair = { virtual_time = group.virtual_time, waiting = redis.call('ZCARD', key('wf:limit:fair:turns', group.claim)),
      remembered = redis.call('ZCARD', key('wf:limit:fair:idle', group.claim)) }
  end
  return { group = group_name_of(group.claim), state = state }
end

local found, has_more = {}, false
if claim_of(call.name, '') == tenant_runs then
  found[1] = view(load_group(tenant_runs))
elseif call.group then
  local group = load_group(claim_of(call.name, call.group))
  found[1] = group.is_listed and view(group) or nil
else
  local names = redis.call('ZRANGE', key('wf:limit:groups', call.name), '-', '+', 'BYLEX', 'LIMIT', 0,
    limits.groups_looked_at + 1)
  has_more = #names > limits.groups_looked_at
  for index = 1, math.min(#names, limits.groups_looked_at) do
    found[index] = view(load_group(call.name .. ':' .. names[index]))
  end
end
local live, queued = 0, 0
for _, one in ipairs(found) do
  live, queued = live + one.state.live, queued + one.state.queued
  one.runs = one.state.live + one.state.queued
end
table.sort(found, function(one, other)
  if one.runs ~= other.runs then
    return one.runs > other.runs
  end
  return precedes(one.group, other.group)
end)
local shown = {}
for index = 1, math.min(#found, limits.groups_shown) do
  shown[index] = found[index]
end
return answer({ groups = shown, live = live, queued = queued, has_more = has_more })
