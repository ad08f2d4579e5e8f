-- Fences only grow: past the last one, past the clock, and past what a store that was replaced had given out.
local function next_fence()
  local last = tonumber(redis.call('HGET', key('wf:tenant'), 'fence') or '0')
  return math.max(last + 1, now * 1000, header.fence_floor + 1)
end

local function mint_fence()
  local fence = next_fence()
  redis.call('HSET', key('wf:tenant'), 'fence', integer(fence))
  return fence
end
