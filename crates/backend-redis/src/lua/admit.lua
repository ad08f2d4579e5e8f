-- needs: failures, status, queue, jobs, append, run_texts, usage, idempotency, admission_lock, starts
-- Admission: the key, the definition, all limits, and the run with all that belongs to it, or nothing.
--
-- Several starts may come in one call; each is decided after the one before it and gets its own answer.

-- The run has its slot, now or before. Its caller knows by which plan it began.
local function admitted(run, usage)
  return { outcome = 'admitted', run = run, status = 'pending', usage = usage }
end

-- What limits make of a start. Made only where it is needed: Redis makes the functions of a script anew in each call, and a
-- tenant without limits and queues pays nothing for these.
local loaded_arrivals
local function arrivals()
  if not loaded_arrivals then
    -- needs: arrivals
    loaded_arrivals = { arrive = arrive, show_place = show_place, undo_claims = undo_claims }
  end
  return loaded_arrivals
end

-- The answer to a start that has made its run before: it may still wait.
local function accepted(run, usage)
  local waiting, debounced = unpack(redis.call('HMGET', key('wf:run', run), 'waiting', 'debounced'))
  return (waiting or debounced) and arrivals().show_place(run, waiting, debounced, usage) or admitted(run, usage)
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
  redis.call('HSET', hash, 'start', write_start(run, start, rows, started_at), 'head', head, 'status', rows.status,
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

-- A run that waits, with what its start asks for. The engine begins it when it has its slots.
local function write_waiting(run, start, rows, created_at, wait_until)
  local copied = {}
  for index = 1, rows.copied do
    copied[index] = rows.steps[index]
  end
  write_steps(run, copied)
  redis.call('HSET', key('wf:run', run), 'start', write_start(run, start, rows, created_at), 'head',
    string.format(formats.queued_head, now, wait_until, wait_until), 'status', 'queued', 'version', '0', 'fence', '0',
    'workflow', start.workflow)
  set_timer(run, wait_until)
end

local function write_queued_run(start, wait_until)
  write_waiting(start.run, start, start.begun, now, wait_until)
  append_events(start.run, { string.format(formats.queued_event, now) })
end

local function write_debounced_run(start, wait_until)
  write_waiting(start.run, start, start.begun, now, wait_until)
  append_events(start.run, { string.format(formats.debounced_event, now) })
end

-- Writes what a newer start asks for in place of what a waiting run had.
local function replace_start(start, run, created_at, wait_until)
  drop_texts_of(run, '-inf', '+inf')
  redis.call('UNLINK', key('wf:steps', run), key('wf:start', run))
  write_waiting(run, start, cmsgpack.unpack(start.rows), created_at, wait_until)
end

-- Begins to write a start, after its decision.
local function begin_rows(start)
  if redis.call('ZADD', key('wf:runs'), 0, start.run) == 0 and not start.is_repeat then
    -- Another start has this id. To answer that this one was admitted would be wrong.
    return { refused = 'conflict', reason = 'there is a run ' .. start.run .. ' already' }
  end
  start.begun = cmsgpack.unpack(start.rows)
  return nil
end

-- The run holds the tenant's slot; `take_slots` gives it those of its groups.
local function create(start, found, take_slots)
  local refusal = begin_rows(start)
  if refusal then
    return refusal
  end
  redis.call('SADD', key('wf:runs:active'), start.run)
  if write_run(start, start.begun) then
    redis.call('SREM', key('wf:runs:active'), start.run)
  else
    if found.usage.runs_active == 0 then
      -- From here on it is measured how fast slots come free.
      redis.call('HSET', key('wf:tenant'), 'flow_since', integer(now))
    end
    if take_slots then
      take_slots(start)
    end
    found.usage.runs_active = found.usage.runs_active + 1
  end
  write_key(start, start.run, found.key_retention)
  return admitted(start.run, found.usage)
end

local function at_capacity(found)
  return { outcome = 'at_capacity', usage = found.usage, slot_flow = found.slot_flow }
end

-- Decides by the limits. Of most tenants only the cap counts.
local function by_limits(start, found)
  local is_simple = #start.claims == 0 and not found.has_queues and not found.is_paused
  if is_simple and found.usage.runs_active < found.usage.runs_max then
    return create(start, found)
  elseif is_simple and found.queue.on_full == 'reject' then
    return at_capacity(found)
  end
  return arrivals().arrive(start, found, { create = create, begin_rows = begin_rows, at_capacity = at_capacity,
    write_queued_run = write_queued_run, write_debounced_run = write_debounced_run, replace_start = replace_start,
    write_key = write_key })
end

local function admit(start)
  local found = read_usage()
  local usage = found.usage
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
  return by_limits(start, found)
end

-- Takes back what this call has written of a start that could not be finished, as far as that can be reached. It goes by
-- the start, because its rows may be half written. A run that an earlier call has made is not touched.
local function undo_job(run, new)
  redis.pcall('ZREM', queue_key(new.topic, new.kind), queue_place(new.job, now, new.moved))
  redis.pcall('ZREM', key('wf:held'), new.job)
  redis.pcall('ZREM', key('wf:jobs'), sortable(now) .. '/' .. new.job)
  redis.pcall('SREM', key('wf:run:jobs', run), new.job)
  redis.pcall('UNLINK', key('wf:job', new.job), text_key('job', new.job))
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
  pcall(drop_texts_of, start.run, '-inf', '+inf')
  for _, name in ipairs({ 'wf:run', 'wf:start', 'wf:steps', 'wf:timeline' }) do
    redis.pcall('UNLINK', key(name, start.run))
  end
  redis.pcall('SREM', key('wf:runs:active'), start.run)
  if loaded_arrivals then
    loaded_arrivals.undo_claims(start)
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
