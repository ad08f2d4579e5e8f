-- needs: claims, slot_flow, groups, fair, places, debounce, grants
-- Releases the slots of a run, or takes it out of its queue, and grants what is free. A second time does nothing.

-- What has come free goes to those that wait. Returns how many runs got their slots.
local function grant_freed(claims)
  local before = granted
  grant_slots(claims)
  write_groups()
  return granted - before
end

-- Corrects what the fair queues of these groups have charged for a run.
local function settle_run(run)
  local found = read_fields(key('wf:run', run), 'charged', 'fair', 'workflow', 'slots_since', 'approvals_since',
    'approvals_ms')
  local run_ms
  for claim, amount in string.gmatch(found.charged or '', '(%S+) (%d+)') do
    if redis.call('ZSCORE', key('wf:limit:live', claim), run) then
      run_ms = run_ms or fair.measure(found)
      fair.settle(load_group(claim), fair.name_of(found.fair, limit_of(claim)), tonumber(amount), run_ms)
    end
  end
end

-- `claims` and `waiting` are the fields of the run.
local function release_slots(run, claims, waiting)
  local place, freed = read_place(waiting), {}
  if place then
    leave_queue(run, place)
  end
  if claims then
    settle_run(run)
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
    redis.call('HDEL', key('wf:run', run), 'claims', 'waiting', 'slots_since', 'joined_keys', 'fair', 'charged',
      'approvals_since', 'approvals_ms')
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
  local found = read_fields(hash, 'claims', 'parent')
  for _, claim in ipairs(claims_in(found.claims)) do
    if not redis.call('ZSCORE', key('wf:limit:live', claim), run) then
      lost[#lost + 1] = claim
    end
  end
  acquire_slots(run, lost, found.parent ~= nil)
  if #lost > 0 then
    redis.call('HSETNX', hash, 'slots_since', integer(now))
  end
  write_groups()
end
