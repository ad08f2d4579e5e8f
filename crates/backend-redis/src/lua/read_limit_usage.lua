-- needs: claims, groups, order
-- The busiest groups of a limit, or one of them. A bounded number is looked at.
local debounced_in, looked_at = {}, 0
local function view(group)
  local state = { live = group.live, queued = group.queued, paced_until = group.paced_until, replacing = group.replacing,
    slot_flow = group.slot_flow }
  if group.virtual_time then
    state.fair = { virtual_time = group.virtual_time, waiting = redis.call('ZCARD', key('wf:limit:fair:turns', group.claim)),
      remembered = redis.call('ZCARD', key('wf:limit:fair:idle', group.claim)) }
  end
  return { group = group_name_of(group.claim), state = state, debounced = debounced_in[group.claim] or 0 }
end

-- Counts the runs of each group that wait for newer starts. Returns the groups.
local function count_debounced(from, to)
  local counted = {}
  local members = redis.call('ZRANGE', key('wf:limit:debounced', call.name), from, to, 'BYLEX', 'LIMIT', 0,
    limits.groups_looked_at + 1)
  for index = 1, math.min(#members, limits.groups_looked_at) do
    local claim = call.name .. ':' .. string.match(members[index], '^[^/]*')
    if not debounced_in[claim] then
      counted[#counted + 1] = claim
    end
    debounced_in[claim] = (debounced_in[claim] or 0) + 1
  end
  looked_at = #members
  return counted
end

local found, has_more = {}, false
if claim_of(call.name, '') == tenant_runs then
  found[1] = view(load_group(tenant_runs))
elseif call.group then
  local group = load_group(claim_of(call.name, call.group))
  local stem = escaped_group_of(group.claim)
  local is_waited_in = #count_debounced('[' .. stem .. '/', '(' .. stem .. '0') > 0
  found[1] = (group.is_listed or is_waited_in) and view(group) or nil
else
  local waited_in = count_debounced('-', '+')
  local names = redis.call('ZRANGE', key('wf:limit:groups', call.name), '-', '+', 'BYLEX', 'LIMIT', 0,
    limits.groups_looked_at + 1)
  has_more = #names > limits.groups_looked_at
  for index = 1, math.min(#names, limits.groups_looked_at) do
    found[index] = view(load_group(call.name .. ':' .. names[index]))
  end
  for _, claim in ipairs(waited_in) do
    -- The others have been seen.
    if not load_group(claim).is_listed then
      found[#found + 1] = view(load_group(claim))
    end
  end
end
has_more = has_more or looked_at > limits.groups_looked_at
local live, queued, debounced = 0, 0, 0
for _, one in ipairs(found) do
  live, queued, debounced = live + one.state.live, queued + one.state.queued, debounced + one.debounced
  one.runs = one.state.live + one.state.queued + one.debounced
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
return answer({ groups = shown, live = live, queued = queued, debounced = debounced, has_more = has_more })
