-- The events of a run after number `after`, oldest first.
if redis.call('EXISTS', key('wf:run', call.run)) == 0 then
  return missing()
end
if call.limit == 0 then
  return answer()
end
-- More than any timeline has, and less than a script would round.
local after = math.min(call.after, 9999999999)
local events = redis.call('LRANGE', key('wf:timeline', call.run), integer(after), integer(after + call.limit - 1))
for index, event in ipairs(events) do
  events[index] = { sequence = after + index, event = event }
end
return answer(events)
