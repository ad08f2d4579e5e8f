-- needs: places, debounce
-- Where a run waits, if it does.
local waiting, waits_for_starts = unpack(redis.call('HMGET', key('wf:run', call.run), 'waiting', 'debounced'))
local place, debounced = read_place(waiting), read_debounced(waits_for_starts)
if debounced then
  return answer(show_debounced_run(call.run, debounced))
end
return answer(place and show_queued_run(call.run, place, position_of(call.run, place)))
