-- Where people look for the snapshot of the workers. On a Cluster it must be on the node of its writer's lock.
local function snapshot_key()
  return prefix .. 'sys:workers:snapshot' .. (is_cluster and ':' .. tag or '')
end
