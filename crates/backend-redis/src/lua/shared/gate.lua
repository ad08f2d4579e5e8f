-- A tenant's live runs with the limits that hold for it. The system's come with the call.
local function read_gate(runs_max, retention)
  local found = redis.call('HMGET', key('wf:tenant'), 'runs_max', 'key_retention_ms', 'freed_at', 'interval_ms')
  return {
    active = redis.call('SCARD', key('wf:runs:active')),
    max = tonumber(found[1] or runs_max),
    retention = tonumber(found[2] or retention),
    freed_at = found[3],
    interval_ms = found[4],
  }
end

-- An answer that changes nothing: what it is, of what, and what the tenant has then.
local function refused(code, detail, gate)
  return { code, detail, integer(gate.active), integer(gate.max), gate.freed_at, gate.interval_ms }
end

-- The key has started a run: with the same payload it is told, with another it is refused.
local function by_started(record, fingerprint, gate)
  if record.fingerprint ~= fingerprint then
    return refused('key_reused', record.run, gate)
  end
  local status = redis.call('HGET', key('wf:run', record.run), 'status')
  return { 'replayed', record.run, integer(gate.active), integer(gate.max), status }
end
