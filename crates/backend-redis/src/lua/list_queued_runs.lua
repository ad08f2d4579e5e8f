-- needs: places
-- The runs that wait in a group, in order.
local claim, waiting = claim_of(call.name, call.group), {}
for position, member in ipairs(redis.call('ZRANGE', key('wf:limit:queue', claim), 0, call.limit - 1)) do
  local run = run_at(member)
  local place = read_place(redis.call('HGET', key('wf:run', run), 'waiting'))
  waiting[#waiting + 1] = place and show_queued_run(run, place, position)
end
return answer(waiting)
