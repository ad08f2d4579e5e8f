-- A tenant's live runs with the limits that hold for it. The system's come with the call.
local function read_usage(runs_max, key_retention)
  local own_max, own_retention, freed_at, interval_ms =
    unpack(redis.call('HMGET', key('wf:tenant'), 'runs_max', 'key_retention_ms', 'freed_at', 'interval_ms'))
  return {
    runs_active = redis.call('SCARD', key('wf:runs:active')),
    runs_max = tonumber(own_max or runs_max),
    key_retention = tonumber(own_retention or key_retention),
    freed_at = freed_at,
    interval_ms = interval_ms,
  }
end

-- An outcome about a run, with what the tenant uses then.
local function outcome(name, run, usage)
  return { outcome = name, run = run, runs_active = usage.runs_active, runs_max = usage.runs_max }
end

-- The key has started a run: the same payload is a replay, another one is refused.
local function by_started(record, fingerprint, usage)
  if record.fingerprint ~= fingerprint then
    return outcome('key_reused', record.run, usage)
  end
  local replayed = outcome('replayed', record.run, usage)
  replayed.status = redis.call('HGET', key('wf:run', record.run), 'status')
  return replayed
end
