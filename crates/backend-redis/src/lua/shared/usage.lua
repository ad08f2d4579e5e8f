-- A tenant's live runs with the limits that hold for it. The system's come with the call.
local function read_usage()
  local own_max, own_retention, flow_since, flow_releases, flow_time, on_full, queued_max, queue_wait, queue_order, paused,
    revision, arrivals = unpack(redis.call('HMGET', key('wf:tenant'), 'runs_max', 'key_retention_ms', 'flow_since',
      'flow_releases', 'flow_time', 'on_full', 'queued_max', 'queue_wait_ms', 'queue_order', 'paused', 'limits_revision',
      'arrivals'))
  return {
    usage = {
      runs_active = redis.call('SCARD', key('wf:runs:active')),
      runs_max = tonumber(own_max or header.runs_max),
    },
    queue = {
      on_full = on_full or header.on_full or 'reject',
      queued_max = tonumber(queued_max or header.queued_max or limits.queued_default),
      wait_max = tonumber(queue_wait or header.queue_wait or limits.queue_wait_default),
      order = queue_order or header.queue_order or 'fifo',
    },
    key_retention = tonumber(own_retention or header.key_retention),
    slot_flow = { since = flow_since or nil, releases = flow_releases or nil, time = flow_time or nil },
    is_paused = paused ~= false,
    limits_revision = tonumber(revision or '0'),
    -- Whether a run has ever waited: a tenant of which none has pays nothing for queues.
    has_queues = arrivals ~= false,
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
