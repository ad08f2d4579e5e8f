-- needs: visible
-- Quarantined runs: acquired by no instance until a person has decided. Their dead letter has the id of no job.
local function quarantine_letter(run)
  return run .. ':run@0'
end

local function remove_quarantine_letter(run)
  redis.call('HDEL', key('wf:dead_letters'), quarantine_letter(run))
  redis.call('ZREM', key('wf:dead_letters:index'), quarantine_letter(run))
end

-- Lets a quarantined run be tried again, alone. Whether it is one.
local function lift_quarantine(run)
  local hash = key('wf:run', run)
  if redis.call('HDEL', hash, 'quarantined_at') == 0 then
    return false
  end
  redis.call('HDEL', hash, 'cancel')
  redis.call('HSET', hash, 'lease', '0', 'tries', 'limits.suspect_from')
  redis.call('DEL', lock_key('wf:run:lock', run))
  redis.call('ZADD', key('wf:ready'), 0, run)
  remove_quarantine_letter(run)
  return true
end
