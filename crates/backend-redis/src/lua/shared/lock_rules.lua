-- needs: failures, inspection, lock_record, locks
-- What must be true of the locks that a tenant's users take. See `lock_record.lua` and `locks.lua`.
local locks = over_scored('wf:locks:sweeps')

rules.lock_debt = { {
  over = locks,
  finds = function(id)
    local ended = redis.call('ZRANGEBYSCORE', open_lock(id).ends, '-inf', integer(now - grace), 'LIMIT', 0, 1)
    return #ended > 0 and 'a lease of the lock expired and was not ended'
  end,
  repairs = function(id)
    local lock = open_lock(id)
    purge(lock)
    save(lock)
  end,
} }

rules.lock_not_listed = { {
  over = locks,
  finds = function(id)
    local lock = open_lock(id)
    local holder = first_holder(lock)
    if not holder or holder.expires_at <= now then
      return nil
    end
    local since = redis.call('HGET', listed_since, id)
    local is_listed = redis.call('ZSCORE', listed, sortable(lock.since) .. '/' .. id)
    return not (is_listed and tonumber(since) == lock.since) and 'the lock is held and not in the list of locks'
  end,
  repairs = function(id)
    local lock = open_lock(id)
    redis.call('HDEL', listed_since, id)
    save_listing(id, lock.since)
  end,
} }

-- The number of those who wait, of each lock and of all. A lock whose keys have ended by themselves is counted as it
-- was until the next sweep.
local function counted()
  local counts, sum, total, drifted = redis.call('HGETALL', waiting_counts), 0, 0, {}
  for index = 1, #counts, 2 do
    local id, count = counts[index], tonumber(counts[index + 1])
    if id == '' then
      total = count
    else
      local lock = open_lock(id)
      local waiting = lock.is_known and redis.call('ZCARD', lock.line) or count
      sum = sum + waiting
      if waiting ~= count then
        drifted[id] = waiting
      end
    end
  end
  return total, sum, drifted
end

rules.lock_tally_drift = { {
  over = function()
    return { string.sub(tag, 2, -2) }, nil
  end,
  finds = function(tenant)
    if tenant ~= string.sub(tag, 2, -2) then
      return nil
    end
    local total, sum, drifted = counted()
    return (total ~= sum or next(drifted)) and integer(total) .. ' are written down as waiting for locks, and '
      .. integer(sum) .. ' wait'
  end,
  repairs = function()
    local _, sum, drifted = counted()
    for id, waiting in pairs(drifted) do
      if waiting > 0 then
        redis.call('HSET', waiting_counts, id, integer(waiting))
      else
        redis.call('HDEL', waiting_counts, id)
      end
    end
    redis.call('HSET', waiting_counts, '', integer(sum))
  end,
} }

rules.row_damaged = { {
  over = function(after, limit)
    local names, next_place = locks(after, limit)
    for index, id in ipairs(names) do
      names[index] = key('wf:lock', id)
    end
    return names, next_place
  end,
  finds = function(name)
    local front = key('wf:lock', '')
    local is_read, failure = pcall(function()
      local lock = open_lock(string.sub(name, #front + 1))
      for _, token in ipairs(redis.call('ZRANGE', lock.order, 0, -1)) do
        local _ = read_grant(lock, token) or damaged('hold')
      end
      for _, asked in ipairs(redis.call('ZRANGE', lock.line, 0, -1)) do
        local _ = read_waiter(lock, asked) or damaged('waiter')
      end
      redis.call('ZCARD', lock.ends)
      redis.call('ZCARD', lock.silences)
      redis.call('LLEN', lock.history)
    end)
    return not is_read and 'the lock cannot be read: ' .. reason_of(failure),
      'what it contained is unknown: it needs a decision by hand'
  end,
} }
