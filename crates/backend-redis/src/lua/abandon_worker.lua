-- needs: given, losses, order
-- Ends what an offline worker still holds. Its leases are found by looking through the tenant's: workers go offline
-- seldom, and an index would cost every claim.
local function held_by_worker()
  local held = {}
  for _, job in ipairs(redis.call('ZRANGE', key('wf:leases'), 0, -1)) do
    local worker, edge = unpack(redis.call('HMGET', key('wf:job', job), 'worker', 'edge'))
    if worker == call.worker and edge ~= 'http' then
      held[#held + 1] = job
    end
  end
  table.sort(held, precedes)
  for index = #held, call.limit + 1, -1 do
    held[index] = nil
  end
  return held
end

local lost = given_before('losses')
if not lost then
  lost = lose(held_by_worker())
  remember_given('losses', lost)
end
return answer(lost)
