-- needs: starts, texts
local found = read_fields(key('wf:run', call.run), 'start', 'head')
if not found.start then
  return answer()
end
found.start = show_start(call.run, found.start)
found.head = show_text(found.head, 'head', call.run)
found.steps = redis.call('HGETALL', key('wf:steps', call.run))
for index = 2, #found.steps, 2 do
  found.steps[index] = show_text(found.steps[index], 'step', call.run .. ':' .. found.steps[index - 1])
end
return answer(found)
