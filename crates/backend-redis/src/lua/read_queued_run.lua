-- needs: places
-- Where a run waits, if it does.
local place = read_place(redis.call('HGET', key('wf:run', call.run), 'waiting'))
return answer(place and show_queued_run(call.run, place, position_of(call.run, place)))
