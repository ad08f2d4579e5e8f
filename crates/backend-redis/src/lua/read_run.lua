-- needs: starts
local found = read_fields(key('wf:run', call.run), 'start', 'head')
if not found.start then
  return answer()
end
found.start = show_start(call.run, found.start)
found.steps = redis.call('HGETALL', key('wf:steps', call.run))
return answer(found)
