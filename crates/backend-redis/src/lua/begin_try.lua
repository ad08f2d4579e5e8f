-- needs: held_lease
-- Counts a try of a suspect, which begins now, and extends its lease.
local lock, refusal = held_lease()
if not lock then
  return refusal
end
write_lock(call.run, lock, call.lease)
redis.call('HSET', key('wf:run', call.run), 'tries', integer(call.number))
redis.call('HDEL', key('wf:run', call.run), 'cancel')
return answer()
