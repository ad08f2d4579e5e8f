-- needs: run_lock, quarantine, slots, inspection
-- What must be true of runs, their slots, timers and marks.
local runs = over_ordered('wf:runs')

rules.slot_without_run = { {
  over = over_set('wf:runs:active'),
  finds = function(run)
    local state = state_of_run(run)
    return look('SISMEMBER', key('wf:runs:active'), run) == 1
      and (state == 'gone' and 'a slot is held by a run that is not there'
        or state == 'ended' and 'a slot is held by a run that has ended')
  end,
  repairs = function(run)
    release_slots(run, unpack(redis.call('HMGET', key('wf:run', run), 'claims', 'waiting')))
  end,
} }

rules.run_without_slot = { {
  over = runs,
  finds = function(run)
    local found = look('HMGET', key('wf:run', run), 'status', 'parent')
    -- A child runs in the slot of its root.
    return state_of_run(run) == 'live' and found[1] ~= 'queued' and not found[2]
      and look('SISMEMBER', key('wf:runs:active'), run) == 0 and 'the run lives and holds no slot'
  end,
  repairs = restore_slots,
} }

local function make_ready(run)
  redis.call('ZADD', key('wf:ready'), 0, run)
end

local function late_by(time)
  return integer(now - tonumber(time)) .. ' ms'
end

rules.timer_overdue = { {
  over = over_scored('wf:timers'),
  finds = function(run)
    local due_at = is_scored('wf:timers', run)
    return due_at and tonumber(due_at) + grace <= now and state_of_run(run) == 'live'
      and 'a timer was due ' .. late_by(due_at) .. ' ago and did not fire'
  end,
  repairs = function(run)
    redis.call('ZREM', key('wf:timers'), run)
    make_ready(run)
  end,
} }

-- A timer that has fired into a ready mark is set again by the turn that clears the mark.
rules.timer_missing = { {
  over = runs,
  finds = function(run)
    local found = look('HMGET', key('wf:run', run), 'due_at', 'status', 'quarantined_at')
    if not found or not found[1] or not found[2] or found[3] or final[found[2]] or is_scored('wf:ready', run) then
      return nil
    end
    local due_at = is_scored('wf:timers', run)
    return due_at ~= nil and tonumber(due_at) ~= tonumber(found[1])
      and 'the timer of the run is not set, or is set for another time'
  end,
  repairs = function(run)
    redis.call('ZADD', key('wf:timers'), redis.call('HGET', key('wf:run', run), 'due_at'), run)
  end,
} }

rules.timer_without_run = { {
  over = over_scored('wf:timers'),
  finds = function(run)
    local state = state_of_run(run)
    return is_scored('wf:timers', run) and (state == 'gone' and 'a timer is set for a run that is not there'
      or state == 'ended' and 'a timer is set for a run that has ended')
  end,
  repairs = function(run)
    redis.call('ZREM', key('wf:timers'), run)
    redis.call('HDEL', key('wf:run', run), 'due_at')
  end,
} }

-- Posting marks the run, and only the turn that empties the inbox clears the mark.
rules.inbox_not_drained = { {
  over = runs,
  finds = function(run)
    if is_scored('wf:ready', run) ~= false or not state_of_run(run)
      or look('HGET', key('wf:run', run), 'quarantined_at') then
      return nil
    end
    local waiting = look('LLEN', key('wf:inbox', run))
    if waiting and waiting > 0 then
      return integer(waiting) .. ' events wait in the inbox of a run that is not marked as ready'
    end
    return look('HGET', key('wf:run', run), 'status') == 'pending'
      and 'the run has not begun and is not marked as ready'
  end,
  repairs = make_ready,
} }

rules.ready_without_run = { {
  over = over_ordered('wf:ready'),
  finds = function(run)
    return is_scored('wf:ready', run) and state_of_run(run) == 'gone' and 'a run is marked as ready that is not there'
  end,
  repairs = function(run)
    redis.call('ZREM', key('wf:ready'), run)
  end,
} }

-- No stage asks for longer.
local hold_max = 3600000

rules.run_hold_without_holder = { {
  over = runs,
  finds = function(run)
    local lock = read_lock(run)
    if not lock then
      return nil
    end
    if lock.expires_at == math.huge then
      return 'the lock on the run has a value that is not ours', 'another program may hold it: delete the lock by hand'
    end
    if gone_instances[lock.owner] then
      return 'the run is held by ' .. lock.owner .. ', which is offline'
    end
    local lease = 'the run lease of ' .. lock.owner
    return lock.expires_at + grace <= now
      and lease .. ' expired ' .. late_by(lock.expires_at) .. ' ago and was not ended'
      or lock.expires_at > now + hold_max and lease .. ' lasts longer than any run lease does'
  end,
  repairs = function(run)
    local lease = redis.call('HGET', key('wf:run', run), 'lease')
    if lease and tonumber(lease) == read_lock(run).fence then
      redis.call('HDEL', key('wf:run', run), 'lease')
    end
    redis.call('DEL', lock_key('wf:run:lock', run))
  end,
} }

rules.run_quarantined = { {
  over = runs,
  finds = function(run)
    local found = look('HMGET', key('wf:run', run), 'quarantined_at', 'tries', 'cancel')
    return found and found[1] and not found[3] and 'the run is quarantined for ' .. late_by(found[1]) .. ', after '
      .. (found[2] or '0') .. ' abandoned turns in a row'
  end,
  repairs = lift_quarantine,
} }
