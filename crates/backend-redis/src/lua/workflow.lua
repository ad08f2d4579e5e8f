-- The current version of a workflow.
local id = argument()
local version = redis.call('HGET', key('wf:def', id), 'current')
if not version then
  return { 'missing' }
end
local found = redis.call('HMGET', key('wf:def', id .. ':' .. version), 'document', 'created_at')
return { 'ok', id, version, found[1], found[2] }
