-- What protects other tenants. Only keys for all tenants change it.
local quota_names = { 'turn_bytes_max', 'run_bytes_max', 'workflows_max', 'workflow_versions_max', 'workers_max',
  'tenants_max' }

-- What happens to starts that find no free slot.
local queue_names = { 'on_full', 'queued_max', 'queue_wait_ms', 'queue_order' }

-- The limits of a tenant, or of the system, with the number of their last change.
local function limits_key(scope)
  return key(scope == 'system' and 'sys:limits' or 'wf:tenant')
end

local function read_written_limits(scope)
  local found = read_fields(limits_key(scope), 'runs_max', 'key_retention_ms', 'revision', 'on_full', 'queued_max',
    'queue_wait_ms', 'queue_order', unpack(quota_names))
  local written = { runs_max = found.runs_max, key_retention = found.key_retention_ms, on_full = found.on_full,
    queued_max = found.queued_max, queue_wait = found.queue_wait_ms, queue_order = found.queue_order }
  for _, name in ipairs(quota_names) do
    written[name] = found[name]
  end
  return { limits = written, revision = found.revision or 0 }
end
