-- A worker on HTTP, as it was last seen; nothing if it was never.
local function read_worker(worker)
  local found = read_fields(key('wf:worker', worker), 'topics', 'capabilities', 'first_seen_at', 'last_seen_at',
    'is_draining')
  found.worker = worker
  found.is_draining = found.is_draining == '1'
  return found.topics and found
end
