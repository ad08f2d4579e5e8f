-- Whether the worker may be saved: it is known, or there is room.
local function has_room(worker, workers_max)
  local seen = key('sys:registry:seen')
  return redis.call('ZSCORE', seen, worker) or redis.call('ZCARD', seen) < workers_max
end

local function is_full(workers_max)
  return conflict('there are ' .. integer(workers_max) .. ' workers on the bus already')
end
