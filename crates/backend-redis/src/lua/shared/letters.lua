-- Keeps dead letters: how many the tenant may have, how many may make room in one step, then job and letter of each. One
-- job has one: the last. Those of the oldest runs make room, and are counted.
local function bury()
  local letters_max, dropped_max = number(), number()
  local index, letters, own = key('wf:dead_letters:index'), number(), {}
  for _ = 1, letters do
    local job, letter = argument(), argument()
    redis.call('HSET', key('wf:dead_letters'), job, letter)
    redis.call('ZADD', index, 0, job)
    own[job] = true
  end
  if letters == 0 then
    return
  end
  local over = math.min(redis.call('ZCARD', index) - letters_max, dropped_max)
  if over <= 0 then
    return
  end
  local dropped = 0
  for _, job in ipairs(redis.call('ZRANGE', index, '-', '+', 'BYLEX', 'LIMIT', 0, over + letters)) do
    if dropped < over and not own[job] then
      redis.call('ZREM', index, job)
      redis.call('HDEL', key('wf:dead_letters'), job)
      dropped = dropped + 1
    end
  end
  redis.call('HINCRBY', key('wf:tenant'), 'letters_dropped', dropped)
end
