-- A version of a workflow; nothing if there is none.
local function read_version(id, version)
  local found = read_fields(key('wf:def', id .. ':' .. version), 'document', 'created_at')
  if not found.document then
    return nil
  end
  found.id, found.version = id, version
  return found
end
