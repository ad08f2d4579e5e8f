-- Removes workers that were not seen, and marks of deleted runs that were started, since a time.
local before = now - call.unused_for

local function retire_workers()
  local removed = 0
  for _, worker in ipairs(redis.call('ZRANGE', key('wf:workers'), '-', '+', 'BYLEX', 'LIMIT', 0, limits.looked_at_max)) do
    local seen_at = redis.pcall('HGET', key('wf:worker', worker), 'last_seen_at')
    if removed < call.limit and type(seen_at) ~= 'table' and tonumber(seen_at or '0') < before then
      redis.call('ZREM', key('wf:workers'), worker)
      redis.call('UNLINK', key('wf:worker', worker))
      removed = removed + 1
    end
  end
  return removed
end

-- The ids of runs begin with when they were made. Some of the marks are looked at; the next time, others.
local function retire_marks()
  local removed = 0
  for _, run in ipairs(redis.call('SRANDMEMBER', key('wf:runs:deleted'), limits.looked_at_max)) do
    local made_at = tonumber(string.sub(run, 1, 8) .. string.sub(run, 10, 13), 16)
    if removed < call.limit and made_at and made_at < before then
      redis.call('SREM', key('wf:runs:deleted'), run)
      removed = removed + 1
    end
  end
  return removed
end

return answer({ workers = retire_workers(), deleted_runs = retire_marks() })
