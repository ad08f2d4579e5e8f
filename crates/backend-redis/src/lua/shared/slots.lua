-- needs: claims, slot_flow, groups, places, debounce, grants
-- Releases the slots of a run, or takes it out of its queue, and grants what is free. A second time does nothing.

-- What has come free goes to those that wait. Returns how many runs got their slots.
local function grant_freed(claims)
  local before = granted
  grant_slots(claims)
  write_groups()
  return granted - before
end

-- `claims` and `waiting` are the fields of the run.
local function release_slots(run, claims, waiting)
  local place, freed = read_place(waiting), {}
  if place then
    leave_queue(run, place)
  end
  local debounced = claims and read_debounced(redis.call('HGET', key('wf:run', run), 'debounced'))
  if debounced then
    leave_debounce(run, debounced)
  end
  for _, claim in ipairs(claims_in(claims)) do
    local group = load_group(claim)
    if redis.call('ZREM', key('wf:limit:live', claim), run) == 1 then
      release_in(group)
      freed[#freed + 1] = claim
    end
  end
  if claims or waiting then
    redis.call('HDEL', key('wf:run', run), 'claims', 'waiting', 'slots_since', 'joined_keys')
  end
  if release_tenant_slot(run) then
    freed[#freed + 1] = tenant_runs
  end
  -- It is read again, should it be needed.
  groups[tenant_runs] = nil
  return grant_freed(freed)
end

-- Gives a live run the slots back that it has lost, even if that is one too many.
local function restore_slots(run)
  local hash, lost = key('wf:run', run), {}
  for _, claim in ipairs(claims_in(redis.call('HGET', hash, 'claims'))) do
    if not redis.call('ZSCORE', key('wf:limit:live', claim), run) then
      lost[#lost + 1] = claim
    end
  end
  acquire_slots(run, lost)
  if #lost > 0 then
    redis.call('HSETNX', hash, 'slots_since', integer(now))
  end
  write_groups()
end
