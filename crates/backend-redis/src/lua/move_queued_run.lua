-- needs: remembered, groups, places
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
local at_end = call.to_front and 0 or -1
local last = redis.call('ZRANGE', queue, at_end, at_end, 'WITHSCORES')
if run_at(last[1]) ~= run then
  -- Its arrival stays: what it was promised in other queues does not change.
  local score = tonumber(last[2])
  leave_queue(run, place)
  enter_queue(run, place, place.claim, call.to_front and math.max(score - 1, 0) or score + 1)
  write_groups()
end
return remember(answer(true))
