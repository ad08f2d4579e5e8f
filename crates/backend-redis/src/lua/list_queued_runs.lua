-- needs: claims, groups, fair, places
-- The runs that wait in a group, in order.
local claim, waiting = claim_of(call.name, call.group), {}
local queue, group = key('wf:limit:queue', claim), load_group(claim)

local function add(run)
  local place = read_place(redis.call('HGET', key('wf:run', run), 'waiting'))
  waiting[#waiting + 1] = place and show_queued_run(run, place, #waiting + 1)
end

-- The groups of a fair queue that go first, with the entries that have gone.
local function fair_groups()
  local turns, found = redis.call('ZRANGE', fair.key('turns', claim), 0, call.limit - 1, 'WITHSCORES'), {}
  for index = 1, #turns, 2 do
    local name = string.sub(turns[index], 17)
    found[#found + 1] = { name = name, turn = tonumber(string.sub(turns[index], 1, 15)), charge = tonumber(turns[index + 1]),
      weight = fair.weight(group, name), from = '[' .. name .. '/' }
  end
  return found
end

-- Puts a group to its place among those behind the first, by its charge.
local function sort_in(found, one)
  local at = 1
  while found[at] and (found[at].charge < one.charge or found[at].charge == one.charge and found[at].turn < one.turn) do
    at = at + 1
  end
  table.insert(found, at, one)
end

local function list_fair()
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', queue, '-inf', '(' .. integer(limits.fair_lane), 'LIMIT', 0,
    call.limit)) do
    add(run_at(member))
  end
  local found = fair_groups()
  while #waiting < call.limit and found[1] do
    local first = table.remove(found, 1)
    local entry = redis.call('ZRANGEBYLEX', fair.key('queue', claim), first.from, '(' .. first.name .. '0', 'LIMIT', 0, 1)[1]
    if entry then
      local run = string.match(entry, '^[^/]*/%d+/%d+/(.*)$')
      add(run)
      local workflow = redis.call('HGET', key('wf:run', run), 'workflow')
      first.from = '(' .. entry
      first.charge = first.charge + fair.cost(fair.run_ms(workflow), first.weight)
      sort_in(found, first)
    end
  end
end

if group.rule.order == 'fair' then
  list_fair()
else
  for _, member in ipairs(redis.call('ZRANGE', queue, 0, call.limit - 1)) do
    add(run_at(member))
  end
end
return answer(waiting)
