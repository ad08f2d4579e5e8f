-- needs: remembered, claims, groups, fair, places
-- Moves a waiting run to the front of its queue, or behind all others.
local before = answered_before()
if before then
  return before
end
local run = call.run
local place = read_place(redis.call('HGET', key('wf:run', run), 'waiting'))
local queue = place and key('wf:limit:queue', place.claim)
if not place or not redis.call('ZSCORE', queue, member_of(place, run)) then
  return remember(answer(false))
end

-- Its arrival stays: what it was promised in other queues does not change.
local function move_to(score, lane)
  leave_queue(run, place)
  enter_queue(run, place, place.claim, score, lane)
  write_groups()
end

-- Before all groups, or behind the others of its own.
local function move_fair()
  if call.to_front then
    return move_to(0)
  end
  local lane = fair.name_of(redis.call('HGET', key('wf:run', run), 'fair'), limit_of(place.claim))
  local last = redis.call('ZREVRANGEBYLEX', fair.key('queue', place.claim), '(' .. lane .. '0', '[' .. lane .. '/',
    'LIMIT', 0, 1)[1]
  local score, last_run = string.match(last or '', '^[^/]*/(%d+)/%d+/(.*)$')
  if last_run ~= run then
    move_to(score and tonumber(score) + 1 or score_of(place, 'fair'), lane)
  end
end

if load_group(place.claim).rule.order == 'fair' then
  move_fair()
  return remember(answer(true))
end
local at_end = call.to_front and 0 or -1
local last = redis.call('ZRANGE', queue, at_end, at_end, 'WITHSCORES')
if run_at(last[1]) ~= run then
  local score = tonumber(last[2])
  move_to(call.to_front and math.max(score - 1, 0) or score + 1)
end
return remember(answer(true))
