-- Whether the worker may be saved: it is known, or there is room.
local function has_room(worker)
  local seen = key('sys:registry:seen')
  return redis.call('ZSCORE', seen, worker) or redis.call('ZCARD', seen) < limits.workers_max
end

local function is_full()
  return conflict('there are ' .. integer(limits.workers_max) .. ' workers on the bus already')
end
