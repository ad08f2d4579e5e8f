-- Admission: the key, the definition, the cap, and the run with all that belongs to it, or nothing.
--
-- Several starts may come in one call; each is decided after the one before it and gets its own answer.
-- Reads one start's arguments up to what is only written if it is admitted.
local function read_start()
  local start = { run = argument(), is_repeat = argument() == '1', workflow = argument(), version = argument() }
  start.runs_max, start.retention = argument(), argument()
  start.key, start.fingerprint, start.hold = argument(), argument(), argument()
  local rows = number()
  start.rows_end = position + rows
  return start
end

-- What the key says, before the cap is looked at: a retry must not fail because it worked.
local function by_key(start, gate)
  if start.key == '' then
    return nil
  end
  local record = live_key(key_name(start.workflow, start.key))
  if record and record.reservation then
    -- A hint. Whoever decides in one step needs none, and passes over another's.
    start.reservation = { run = record.run, fence = record.reservation.fence }
    return nil
  end
  if not record then
    return nil
  end
  if record.run == start.run and record.fingerprint == start.fingerprint then
    return refused('admitted', record.run, gate)
  end
  return by_started(record, start.fingerprint, gate)
end

-- Refuses a start that says it is under the admission lock, unless it is, and its key is still reserved for it.
local function check_hold(start)
  if start.hold == '' then
    return nil
  end
  local current, is_held = admission_lock(tonumber(start.hold))
  if not is_held then
    return { 'fenced', integer(current), start.hold }
  end
  local reservation = start.reservation
  if start.key ~= '' and (not reservation or reservation.run ~= start.run) then
    return { 'fenced', integer(reservation and reservation.fence or current), start.hold }
  end
  return nil
end

local function write_key(start, gate)
  if start.key == '' then
    return
  end
  local record = '{"run":"' .. start.run .. '","fingerprint":"' .. start.fingerprint .. '"'
  if gate.retention then
    record = record .. ',"expires_at":' .. integer(now + gate.retention)
  end
  write_key_record(key_name(start.workflow, start.key), record .. '}', gate.retention)
end

-- The run is left to the engine, or begins with its first turn. Whether it has ended with it.
local function write_run(start)
  local run, asked_at = start.run, now
  local turn_at = argument()
  if turn_at ~= '' then
    asked_at = math.min(asked_at, tonumber(turn_at))
  end
  -- The documents come without their last number, which is this moment.
  local document = argument() .. integer(asked_at) .. '}'
  local admitted = '{"at":' .. integer(asked_at) .. argument()
  write_steps(run)
  local head, status, version, fence, due_at = argument(), argument(), argument(), argument(), argument()
  if turn_at == '' then
    head = head .. integer(now) .. '}'
    redis.call('ZADD', key('wf:ready'), 0, run)
  end
  redis.call('HSET', key('wf:run', run), 'start', document, 'head', head, 'status', status, 'version', version,
    'fence', fence, 'workflow', start.workflow)
  redis.call('ZADD', key('wf:runs'), 0, run)
  if due_at ~= '' then
    redis.call('HSET', key('wf:run', run), 'due_at', due_at)
    redis.call('ZADD', key('wf:timers'), due_at, run)
  end
  append_events(run, { admitted })
  for _ = 1, number() do
    dispatch(run)
  end
  for _ = 1, number() do
    hold(run)
  end
  for _ = 1, number() do
    open_approval(run)
  end
  return final[status]
end

local function admit(start)
  local gate = read_gate(start.runs_max, start.retention)
  local known = by_key(start, gate)
  if known then
    return known
  end
  -- Asked before, by its client or by the connection: neither a new definition nor a full tenant takes it back.
  if redis.call('EXISTS', key('wf:run', start.run)) == 1 then
    return refused('admitted', start.run, gate)
  end
  if start.is_repeat and redis.call('SISMEMBER', key('wf:runs:deleted'), start.run) == 1 then
    return { 'replayed', start.run, integer(gate.active), integer(gate.max), false }
  end
  local fenced = check_hold(start)
  if fenced then
    return fenced
  end
  local current = redis.call('HGET', key('wf:def', start.workflow), 'current')
  if current ~= start.version then
    return refused('changed', current, gate)
  end
  if gate.active >= gate.max then
    return refused('full', '', gate)
  end
  start.is_begun = true
  redis.call('SADD', key('wf:runs:active'), start.run)
  if write_run(start) then
    redis.call('SREM', key('wf:runs:active'), start.run)
  else
    gate.active = gate.active + 1
  end
  write_key(start, gate)
  return refused('admitted', start.run, gate)
end

-- Takes back what this call has written of a start that could not be finished, as far as that can be reached. A run that
-- an earlier call has made is not touched.
local function undo(start)
  if not start.is_begun then
    return
  end
  for _, name in ipairs({ 'wf:runs', 'wf:ready', 'wf:timers' }) do
    redis.pcall('ZREM', key(name), start.run)
  end
  for _, name in ipairs({ 'wf:run', 'wf:steps', 'wf:timeline' }) do
    redis.pcall('UNLINK', key(name, start.run))
  end
  redis.pcall('SREM', key('wf:runs:active'), start.run)
end

local answers = {}
for index = 1, number() do
  tag = argument()
  local start = read_start()
  -- One tenant's damaged data must not cost the others in this call their answers.
  local is_done, answer = pcall(admit, start)
  if not is_done then
    local reason = reason_of(answer)
    if is_refusal_of_redis(reason) then
      return redis.error_reply(reason)
    end
    undo(start)
    answer = { 'broken', reason }
  end
  answers[index] = answer
  position = start.rows_end
end
return answers
