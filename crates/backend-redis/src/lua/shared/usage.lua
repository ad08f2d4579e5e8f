-- A tenant's live runs with the limits that hold for it. The system's come with the call.
local function read_usage()
  local own_max, own_retention, freed_at, interval_ms =
    unpack(redis.call('HMGET', key('wf:tenant'), 'runs_max', 'key_retention_ms', 'freed_at', 'interval_ms'))
  return {
    usage = {
      runs_active = redis.call('SCARD', key('wf:runs:active')),
      runs_max = tonumber(own_max or header.runs_max),
    },
    key_retention = tonumber(own_retention or header.key_retention),
    slot_flow = { freed_at = freed_at, interval_ms = interval_ms },
  }
end

-- The key has started a run: the same payload is a replay, another one is refused.
local function by_started(record, fingerprint, usage)
  if record.fingerprint ~= fingerprint then
    return { outcome = 'key_reused', run = record.run, usage = usage }
  end
  local status = redis.call('HGET', key('wf:run', record.run), 'status')
  return { outcome = 'replayed', run = record.run, status = status, usage = usage }
end
