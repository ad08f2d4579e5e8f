-- A version of a workflow, also of one that was deleted since.
local id, version = argument(), argument()
local found = redis.call('HMGET', key('wf:def', id .. ':' .. version), 'document', 'created_at')
if not found[1] then
  return { 'missing' }
end
return { 'ok', id, version, found[1], found[2] }
