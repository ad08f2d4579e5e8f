-- Adjustments and warnings, the newest first.
local events, found = redis.call('LRANGE', key('wf:budget:events', call.name), 0, -1), {}
for index = #events, 1, -1 do
  found[#found + 1] = events[index]
end
return answer(found)
