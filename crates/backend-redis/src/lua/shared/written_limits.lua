-- The limits of a tenant, or of the system, with the number of their last change.
local function limits_key(scope)
  return key(scope == 'system' and 'sys:limits' or 'wf:tenant')
end

local function read_written_limits(scope)
  local found = read_fields(limits_key(scope), 'runs_max', 'key_retention_ms', 'revision')
  return { limits = { runs_max = found.runs_max, key_retention = found.key_retention_ms },
    revision = found.revision or 0 }
end
