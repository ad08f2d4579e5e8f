-- needs: failures, status, queue, jobs, append, usage, idempotency, admission_lock, groups, places, grants, judge, replacements
-- Admission: the key, the definition, all limits, and the run with all that belongs to it, or nothing.
--
-- Several starts may come in one call; each is decided after the one before it and gets its own answer.

-- The run has its slot, now or before. Its caller knows by which plan it began.
local function admitted(run, usage)
  return { outcome = 'admitted', run = run, status = 'pending', usage = usage }
end

-- The answer to a start that has made its run before: it may still wait.
local function accepted(run, usage)
  local place = read_place(redis.call('HGET', key('wf:run', run), 'waiting'))
  if not place then
    return admitted(run, usage)
  end
  local group = load_group(place.claim)
  local reason, next_at = fullness(group, group.live)
  return { outcome = 'queued', run = run, position = position_of(run, place),
    blocked = blocked_by(group, reason or 'others', next_at), usage = usage }
end

-- What the key says, before the limits are checked: a retry must not fail because it worked.
local function by_key(start, usage)
  local record = start.key and live_key(key_name(start.workflow, start.key))
  if not record then
    return nil
  end
  if record.reservation then
    -- A hint. A start that is decided in one step needs none, and ignores that of another.
    start.reservation = { run = record.run, fence = record.reservation.fence }
    return nil
  end
  if record.run == start.run and record.fingerprint == start.fingerprint then
    return accepted(record.run, usage)
  end
  return by_started(record, start.fingerprint, usage)
end

local function stale(start, current)
  return { refused = 'fenced', current = current, held = start.admission_fence }
end

-- Refuses a start under the admission lock, unless its caller still holds the lock and its key is still reserved for
-- it.
local function check_admission_lock(start)
  if not start.admission_fence then
    return nil
  end
  local current, is_held = admission_lock(start.admission_fence)
  if not is_held then
    return stale(start, current)
  end
  local reservation = start.reservation
  if start.key and (not reservation or reservation.run ~= start.run) then
    return stale(start, reservation and reservation.fence or current)
  end
  return nil
end

-- Lets the start's key, if it has one, stand for a run.
local function write_key(start, run, key_retention)
  if not start.key then
    return
  end
  local record = '{"run":"' .. run .. '","fingerprint":"' .. start.fingerprint .. '"'
  if key_retention then
    record = record .. ',"expires_at":' .. integer(now + key_retention)
  end
  write_key_record(key_name(start.workflow, start.key), record .. '}', key_retention)
end

local function write_claims(start)
  if #start.claims > 0 then
    redis.call('HSET', key('wf:run', start.run), 'claims', table.concat(start.claims, ' '))
  end
end

local function set_timer(run, due_at)
  redis.call('HSET', key('wf:run', run), 'due_at', integer(due_at))
  redis.call('ZADD', key('wf:timers'), integer(due_at), run)
end

-- The run is left to the engine, or begins with its first turn. Whether it has ended with it.
local function write_run(start, rows)
  local run, hash = start.run, key('wf:run', start.run)
  local started_at, head = now, rows.head
  if rows.turn_at then
    started_at = math.min(now, rows.turn_at)
  else
    head = at_time(head, now)
    redis.call('ZADD', key('wf:ready'), 0, run)
  end
  write_steps(run, rows.steps)
  redis.call('HSET', hash, 'start', at_time(rows.document, started_at), 'head', head, 'status', rows.status,
    'version', integer(rows.version), 'fence', integer(rows.fence or 0), 'workflow', start.workflow)
  if rows.due_at then
    set_timer(run, rows.due_at)
  end
  local events = rows.events or {}
  table.insert(events, 1, at_time(rows.admitted, started_at))
  append_events(run, events)
  for _, new in ipairs(rows.dispatched or {}) do
    dispatch(run, new)
  end
  for _, new in ipairs(rows.held or {}) do
    hold(run, new)
  end
  for _, new in ipairs(rows.approvals_opened or {}) do
    open_approval(run, new)
  end
  return final[rows.status]
end

-- A run that waits for slots. The engine begins it when it has them.
local function write_queued_run(start, rows, wait_until)
  local run, copied = start.run, {}
  for index = 1, rows.copied do
    copied[index] = rows.steps[index]
  end
  write_steps(run, copied)
  redis.call('HSET', key('wf:run', run), 'start', at_time(rows.document, now), 'head',
    string.format(formats.queued_head, now, wait_until, wait_until), 'status', 'queued', 'version', '0', 'fence', '0',
    'workflow', start.workflow)
  set_timer(run, wait_until)
  append_events(run, { string.format(formats.queued_event, now) })
  write_claims(start)
end

-- Makes room for the rows of a start. False: another start has its id.
local function begin_rows(start)
  if redis.call('ZADD', key('wf:runs'), 0, start.run) == 0 and not start.is_repeat then
    return false
  end
  start.begun = cmsgpack.unpack(start.rows)
  return true
end

-- To answer that this one was admitted would be wrong.
local function id_taken(start)
  return { refused = 'conflict', reason = 'there is a run ' .. start.run .. ' already' }
end

local function create(start, found)
  if not begin_rows(start) then
    return id_taken(start)
  end
  redis.call('SADD', key('wf:runs:active'), start.run)
  if write_run(start, start.begun) then
    redis.call('SREM', key('wf:runs:active'), start.run)
  else
    if #start.claims > 0 then
      acquire_slots(start.run, start.claims)
      redis.call('HSET', key('wf:run', start.run), 'claims', table.concat(start.claims, ' '), 'slots_since', integer(now))
    end
    found.usage.runs_active = found.usage.runs_active + 1
  end
  write_key(start, start.run, found.key_retention)
  write_groups()
  return admitted(start.run, found.usage)
end

-- Lets the run wait, as `how` says. What ends or cancels another run comes last: nothing takes that back.
local function queue(start, found, how, full, victim)
  if not begin_rows(start) then
    return id_taken(start)
  end
  local run, group = start.run, full.group
  local claim, is_first_come = group.claim, group.rule.order == 'fifo'
  local blocked, position = blocked_by(group, full.reason, full.next_at), is_first_come and group.queued + 1 or nil
  start.waits_in = claim
  write_queued_run(start, start.begun, now + group.rule.wait_max)
  local place = { arrival = redis.call('HINCRBY', key('wf:tenant'), 'arrivals', 1), at = now, priority = start.priority }
  start.place = place
  if how == 'replace_running' then
    position = 1
    replace_running(run, place, group, victim)
  elseif how == 'replace_queued' then
    position = position and position - 1
    local last = redis.call('ZRANGE', key('wf:limit:queue', claim), -1, -1)[1]
    wait_for(run, place, group, full.next_at)
    supersede_last(last, run, claim)
  else
    wait_for(run, place, group, full.next_at)
  end
  write_key(start, run, found.key_retention)
  write_groups()
  return { outcome = 'queued', run = run, position = position, blocked = blocked, usage = found.usage }
end

-- Lets a run that exists answer the start. Its key stands for that run from now on.
local function join(start, found, group, run)
  local blocked = blocked_by(group, 'slots')
  if start.key then
    local joined = tonumber(redis.call('HGET', key('wf:run', run), 'joined_keys') or '0')
    if joined >= limits.joined_keys_max then
      return { outcome = 'queue_full', blocked = blocked, usage = found.usage }
    end
    redis.call('HSET', key('wf:run', run), 'joined_keys', integer(joined + 1))
    write_key(start, run, found.key_retention)
  end
  local status = redis.call('HGET', key('wf:run', run), 'status') or 'pending'
  return { outcome = 'joined', run = run, status = status, blocked = blocked, usage = found.usage }
end

local function reject(found, full)
  local group = full.group
  if group.claim == tenant_runs and full.reason ~= 'paused' then
    return { outcome = 'at_capacity', usage = found.usage, slot_flow = found.slot_flow }
  end
  return { outcome = 'limit_reached', blocked = blocked_by(group, full.reason, full.next_at), usage = found.usage }
end

-- Decides by the groups that the start counts in.
local function arrive(start, found)
  local met = {}
  for index, claim in ipairs(start.claims) do
    met[index] = load_group(claim)
  end
  met[#met + 1] = load_group(tenant_runs)
  local victim = find_victim(met)
  local full = full_groups(met)
  local how, decides = judge(full, true)
  if how == 'join' then
    local run = run_to_join(decides.group.claim, start.workflow)
    if run then
      return join(start, found, decides.group, run)
    end
    how, decides = judge(full, false)
  end
  if how == 'start' then
    return create(start, found)
  elseif how == 'reject' then
    return reject(found, decides)
  elseif how == 'queue_full' then
    return { outcome = 'queue_full', blocked = blocked_by(decides.group, 'others'), usage = found.usage }
  end
  return queue(start, found, how, decides, victim)
end

local function admit(start)
  forget_groups()
  local found = read_usage()
  local usage = found.usage
  groups[tenant_runs] = tenant_group(found)
  local known = by_key(start, usage)
  if known then
    return known
  end
  -- A start whose answer was lost: neither a new definition nor a full tenant takes it back.
  if start.is_repeat then
    if redis.call('EXISTS', key('wf:run', start.run)) == 1 then
      return accepted(start.run, usage)
    end
    if redis.call('SISMEMBER', key('wf:runs:deleted'), start.run) == 1 then
      return { outcome = 'replayed', run = start.run, usage = usage }
    end
  end
  local refusal = check_admission_lock(start)
  if refusal then
    return refusal
  end
  local current = redis.call('HGET', key('wf:def', start.workflow), 'current')
  if current ~= start.workflow_version then
    return { outcome = 'definition_changed', current = current, usage = usage }
  end
  if found.limits_revision ~= start.limits_revision then
    return { outcome = 'limits_changed', usage = usage }
  end
  local decided = arrive(start, found)
  write_groups()
  return decided
end

-- Takes back what this call has written of a start that could not be finished, as far as that can be reached. It goes by
-- the start, because its rows may be half written. A run that an earlier call has made is not touched.
local function undo_job(run, new)
  redis.pcall('ZREM', queue_key(new.topic, new.kind), queue_place(new.job, now, new.moved))
  redis.pcall('ZREM', key('wf:held'), new.job)
  redis.pcall('ZREM', key('wf:jobs'), sortable(now) .. '/' .. new.job)
  redis.pcall('SREM', key('wf:run:jobs', run), new.job)
  redis.pcall('UNLINK', key('wf:job', new.job))
end

-- A group that came into being with the start goes with it.
local function undo_claim(start, claim)
  local queue_of_claim, limit = key('wf:limit:queue', claim), limit_of(claim)
  redis.pcall('ZREM', key('wf:limit:live', claim), start.run)
  if start.place then
    redis.pcall('ZREM', queue_of_claim, member_of(start.place, start.run))
  end
  if redis.pcall('ZCARD', queue_of_claim) == 0 then
    redis.pcall('ZREM', key('wf:limit:queues', limit), escaped_group_of(claim) .. '/')
    if redis.pcall('ZCARD', key('wf:limit:live', claim)) == 0 and redis.pcall('EXISTS', key('wf:limit:group', claim)) == 0 then
      redis.pcall('ZREM', key('wf:limit:groups', limit), escaped_group_of(claim))
    end
  end
end

local function undo(start)
  local rows = start.begun
  if not rows then
    return
  end
  for _, new in ipairs(rows.dispatched or {}) do
    undo_job(start.run, new)
  end
  for _, new in ipairs(rows.held or {}) do
    undo_job(start.run, new)
  end
  for _, new in ipairs(rows.approvals_opened or {}) do
    redis.pcall('ZREM', key('wf:approvals:open'), new.key)
    redis.pcall('SREM', key('wf:run:approvals', start.run), new.key)
    redis.pcall('UNLINK', key('wf:approval', new.key))
  end
  for _, name in ipairs({ 'wf:runs', 'wf:ready', 'wf:timers' }) do
    redis.pcall('ZREM', key(name), start.run)
  end
  for _, name in ipairs({ 'wf:run', 'wf:steps', 'wf:timeline' }) do
    redis.pcall('UNLINK', key(name, start.run))
  end
  redis.pcall('SREM', key('wf:runs:active'), start.run)
  for _, claim in ipairs(start.claims) do
    undo_claim(start, claim)
  end
  if start.waits_in then
    undo_claim(start, start.waits_in)
  end
end

local answers = {}
for index = 3, #ARGV, 2 do
  local start = cmsgpack.unpack(ARGV[index])
  -- Still packed: a start that is refused writes none of them.
  start.rows = ARGV[index + 1]
  start.claims = start.claims or {}
  tag = start.tag
  -- One tenant's damaged data must not cost the others in this call their answers.
  local is_done, decided = pcall(admit, start)
  if not is_done then
    local reason = reason_of(decided)
    if is_refusal_of_redis(reason) then
      return redis.error_reply(reason)
    end
    undo(start)
    decided = { refused = 'damaged', reason = 'the start could not be decided: ' .. reason }
  end
  answers[#answers + 1] = decided
end
return answer(answers)
