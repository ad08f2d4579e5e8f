-- needs: status, remembered, append, groups, grants, judge, children, starts
-- Starts a child that is still wanted, or reports to its parent why not.
local before = answered_before()
if before then
  return before
end
local run, parent = call.run, call.parent
local hash = key('wf:run', run)
if redis.call('HEXISTS', key('wf:children'), run) == 0 then
  return answer({ outcome = 'not_wanted' })
end
if call.refusal then
  forget_child_start(run)
  report_child(parent, run, call.refusal)
  return remember(answer({ outcome = 'refused' }))
end
local limits_revision = tonumber(redis.call('HGET', key('wf:tenant'), 'limits_revision') or '0')
if redis.call('HGET', key('wf:def', call.workflow), 'current') ~= call.workflow_version
  or limits_revision ~= call.limits_revision then
  return answer({ outcome = 'outdated' })
end

-- The groups that it counts in: not those in which a run above it counts.
local held, above = {}, parent
while above do
  local found = read_fields(key('wf:run', above), 'claims', 'parent', 'status')
  for _, claim in ipairs(claims_in(found.claims)) do
    held[claim] = true
  end
  above = found.status and not final[found.status] and found.parent or nil
end
local claims, met = {}, {}
for _, claim in ipairs(call.claims) do
  if not held[claim] then
    claims[#claims + 1] = claim
    met[#met + 1] = load_group(claim)
  end
end

local function write_child(status, head, event)
  if redis.call('ZADD', key('wf:runs'), 0, run) == 0 then
    return false
  end
  forget_child_start(run)
  redis.call('HSET', hash, 'start', write_start(run, call, call, now), 'head', head, 'status', status, 'version', '0', 'fence',
    '0', 'workflow', call.workflow, 'parent', parent, 'parent_step',
    call.parent_step)
  if #claims > 0 then
    redis.call('HSET', hash, 'claims', table.concat(claims, ' '))
    if status == 'pending' then
      redis.call('HSET', hash, 'slots_since', integer(now))
    end
  end
  -- In fair queues it stands for whom its root stands for.
  local fair_groups = redis.call('HGET', key('wf:run', parent), 'fair')
  if fair_groups then
    redis.call('HSET', hash, 'fair', fair_groups)
  end
  append_events(run, { event })
  return true
end

local function exists()
  return conflict('there is a run ' .. run .. ' already')
end

local how, full = judge_child(full_groups(met))
if how == 'start' then
  if not write_child('pending', at_time(call.head, now), at_time(call.admitted, now)) then
    return exists()
  end
  redis.call('ZADD', key('wf:ready'), 0, run)
  charge_run(run, claims)
  acquire_limit_slots(run, claims)
  write_groups()
  return remember(answer({ outcome = 'started' }))
end
local blocked = blocked_by(full.group, full.reason, full.next_at)
if how ~= 'queue' then
  return answer({ outcome = how, value = blocked })
end
local wait_until = now + full.group.rule.wait_max
if not write_child('queued', string.format(formats.queued_head, now, wait_until, wait_until),
  string.format(formats.queued_event, now)) then
  return exists()
end
redis.call('HSET', hash, 'due_at', integer(wait_until))
redis.call('ZADD', key('wf:timers'), integer(wait_until), run)
local place = { arrival = redis.call('HINCRBY', key('wf:tenant'), 'arrivals', 1), at = now, priority = call.priority }
wait_for(run, place, full.group, full.next_at)
write_groups()
return remember(answer({ outcome = 'queued', value = blocked }))
