-- How many runs of a tenant hold a slot, and its own limits.
local found = read_fields(key('wf:tenant'), 'runs_max', 'key_retention_ms', 'revision')
found.runs_active = redis.call('SCARD', key('wf:runs:active'))
return answer(found)
