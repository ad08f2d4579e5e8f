-- needs: claims, groups, fair, places
-- A page of the runs that wait in a group, in order. A cursor is the place of the last one: its score, and the member. In a
-- fair queue it is `=` and how many stand before the page; behind those whose positions are counted, `~` and a place.
local claim, waiting = claim_of(call.name, call.group), {}
local queue, group, page = key('wf:limit:queue', claim), load_group(claim), call.page

local function add(run)
  local place = read_place(redis.call('HGET', key('wf:run', run), 'waiting'))
  waiting[#waiting + 1] = place and show_queued_run(run, place, #waiting + 1)
end

-- The groups of a fair queue that go first, with the entries that have gone.
local function fair_groups(count)
  local turns, found = redis.call('ZRANGE', fair.key('turns', claim), 0, count - 1, 'WITHSCORES'), {}
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

-- The first runs of a fair queue, in the order that charges give it now.
local function list_fair(count)
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', queue, '-inf', '(' .. integer(limits.fair_lane), 'LIMIT', 0,
    count)) do
    add(run_at(member))
  end
  local found = fair_groups(count)
  while #waiting < count and found[1] do
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

-- Those behind the counted ones, by arrival.
local function behind_counted(place)
  list_fair(limits.positions_counted)
  local counted, items, last = {}, {}, nil
  for _, one in ipairs(waiting) do
    counted[one.run] = true
  end
  local score = string.match(place, '^(%d+)/')
  local from = score and '(' .. integer(tonumber(score)) or integer(limits.fair_lane)
  local found = redis.call('ZRANGE', queue, from, '+inf', 'BYSCORE', 'LIMIT', 0,
    limits.positions_counted + page.limit + 1, 'WITHSCORES')
  for index = 1, #found, 2 do
    local run = run_at(found[index])
    if not counted[run] then
      if #items == page.limit then
        return answer({ items = items, next = '~' .. last })
      end
      last = sortable(tonumber(found[index + 1])) .. '/' .. found[index]
      local at = read_place(redis.call('HGET', key('wf:run', run), 'waiting'))
      items[#items + 1] = at and show_queued_run(run, at, nil)
    end
  end
  return answer({ items = items })
end

local function fair_page()
  local place = string.match(page.after or '', '^~(.*)$')
  if place then
    return behind_counted(place)
  end
  local before = math.min(tonumber(string.match(page.after or '', '^=(%d+)$')) or 0, limits.positions_counted)
  local last, items = math.min(before + page.limit, limits.positions_counted), {}
  list_fair(last)
  for index = before + 1, #waiting do
    items[#items + 1] = waiting[index]
  end
  if last < math.min(group.queued, limits.positions_counted) then
    return answer({ items = items, next = '=' .. integer(last) })
  end
  return answer({ items = items, next = group.queued > limits.positions_counted and '~' or nil })
end

if group.rule.order == 'fair' then
  return fair_page()
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
