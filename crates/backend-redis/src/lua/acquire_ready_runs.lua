-- needs: acquire
-- Acquires the tenant's first ready runs that no instance holds and that are no suspects.
local acquired, has_suspects = {}, false
for _, run in ipairs(redis.call('ZRANGE', key('wf:ready'), 0, 511)) do
  if #acquired == call.limit or bytes > limits.ready_bytes_max then
    break
  end
  local given, is_suspect = acquire(run)
  acquired[#acquired + 1] = given
  has_suspects = has_suspects or is_suspect
end
return answer({ runs = acquired, has_suspects = has_suspects })
