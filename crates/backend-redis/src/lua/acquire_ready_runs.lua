-- needs: acquire
-- Acquires the tenant's first ready runs that no instance holds.
local acquired = {}
for _, run in ipairs(redis.call('ZRANGE', key('wf:ready'), 0, 511)) do
  if #acquired == call.limit or bytes > answer_bytes_max then
    break
  end
  acquired[#acquired + 1] = acquire(run)
end
return answer(acquired)
