-- needs: workflows
-- The current version of a workflow.
local version = redis.call('HGET', key('wf:def', call.id), 'current')
return answer(version and read_version(call.id, version))
