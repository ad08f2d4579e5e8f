-- Saves dead letters. A job has one: the last. Those of the oldest runs make room, a bounded number in one step, and are
-- counted.
local function add_dead_letters(added, letters_max)
  local index, own = key('wf:dead_letters:index'), {}
  for _, letter in ipairs(added) do
    redis.call('HSET', key('wf:dead_letters'), letter.key, letter.document)
    redis.call('ZADD', index, 0, letter.key)
    own[letter.key] = true
  end
  if #added == 0 then
    return
  end
  local over = math.min(redis.call('ZCARD', index) - letters_max, limits.dropped_max)
  if over <= 0 then
    return
  end
  local dropped = 0
  for _, job in ipairs(redis.call('ZRANGE', index, '-', '+', 'BYLEX', 'LIMIT', 0, over + #added)) do
    if dropped < over and not own[job] then
      redis.call('ZREM', index, job)
      redis.call('HDEL', key('wf:dead_letters'), job)
      dropped = dropped + 1
    end
  end
  redis.call('HINCRBY', key('wf:tenant'), 'letters_dropped', dropped)
end
