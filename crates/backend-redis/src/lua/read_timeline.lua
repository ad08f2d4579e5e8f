-- The events of a run after number `after`, oldest first.
if redis.call('EXISTS', key('wf:run', call.run)) == 0 then
  return missing()
end
if call.limit == 0 then
  return answer()
end
local last = integer(call.after + call.limit - 1)
return answer({ events = redis.call('LRANGE', key('wf:timeline', call.run), integer(call.after), last) })
