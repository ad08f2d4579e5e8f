-- needs: usage
-- What a start under the admission lock reads: the tenant's live runs, and how fast their slots are released.
local found = read_usage()
-- A named limit may let it join a run.
local has_limits = found.limits_revision > 0 and redis.call('EXISTS', key('wf:limits')) == 1
found.rejects = found.queue.on_full == 'reject' and not has_limits
return answer(found)
