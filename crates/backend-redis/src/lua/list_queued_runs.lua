-- needs: claims, groups, fair, places
-- A page of the runs that wait in a group, in order. A cursor is the place of the last one: its score, and the member.
local claim, waiting = claim_of(call.name, call.group), {}
local queue, group, page = key('wf:limit:queue', claim), load_group(claim), call.page

local function add(run)
  local place = read_place(redis.call('HGET', key('wf:run', run), 'waiting'))
  waiting[#waiting + 1] = place and show_queued_run(run, place, #waiting + 1)
end

-- The groups of a fair queue that go first, with the entries that have gone.
local function fair_groups()
  local turns, found = redis.call('ZRANGE', fair.key('turns', claim), 0, page.limit - 1, 'WITHSCORES'), {}
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
    page.limit)) do
    add(run_at(member))
  end
  local found = fair_groups()
  while #waiting < page.limit and found[1] do
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

-- How many stand before the page, wherever the last run of the one before has gone.
local function before_page()
  local score, after = string.match(page.after or '', '^(%d+)/(.+)$')
  if not score then
    return 0
  end
  score = integer(tonumber(score))
  local before = redis.call('ZCOUNT', queue, '-inf', '(' .. score)
  for _, member in ipairs(redis.call('ZRANGE', queue, score, score, 'BYSCORE')) do
    if member > after then
      break
    end
    before = before + 1
  end
  return before
end

if group.rule.order == 'fair' then
  -- In the order that charges give it now: there is no place to go on from.
  list_fair()
  return answer({ items = waiting })
end

local before = before_page()
local found = redis.call('ZRANGE', queue, before, before + page.limit, 'WITHSCORES')
for index = 1, math.min(#found / 2, page.limit) do
  local member = found[2 * index - 1]
  local run, position = run_at(member), before + index
  local place = read_place(redis.call('HGET', key('wf:run', run), 'waiting'))
  waiting[#waiting + 1] = place
    and show_queued_run(run, place, position <= limits.positions_counted and position or nil)
end
local has_more = #found / 2 > page.limit
return answer({ items = waiting, next = has_more
  and sortable(tonumber(found[2 * page.limit])) .. '/' .. found[2 * page.limit - 1] })
