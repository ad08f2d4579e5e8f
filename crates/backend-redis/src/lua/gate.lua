-- A tenant's usage and limits: what it says itself, and how much of it is in use.
local found = redis.call('HMGET', key('wf:tenant'), 'runs_max', 'key_retention_ms', 'revision')
return { 'ok', integer(redis.call('SCARD', key('wf:runs:active'))), found[1], found[2], found[3] }
