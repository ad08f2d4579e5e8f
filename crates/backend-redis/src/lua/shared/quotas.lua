-- How many of these the tenant may have. The system's numbers come with the call.
local function quota(name, default)
  return tonumber(redis.call('HGET', key('wf:tenant'), name) or header[name] or default)
end

local function read_quotas()
  return {
    workflows_max = quota('workflows_max', limits.workflows_default),
    workflow_versions_max = quota('workflow_versions_max', limits.versions_default),
    workers_max = quota('workers_max', limits.workers_default),
  }
end
