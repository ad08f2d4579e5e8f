-- needs: places
-- A page of the runs that wait in a group, in order. A cursor is the place of the last one: its score, and the member.
local claim = claim_of(call.name, call.group)
local queue, page = key('wf:limit:queue', claim), call.page

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

local waiting, before = {}, before_page()
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
