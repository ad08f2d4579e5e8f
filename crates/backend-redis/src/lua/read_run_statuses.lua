-- The status of each of these runs that exists.
local found = {}
for _, run in ipairs(call.runs) do
  local status = redis.call('HGET', key('wf:run', run), 'status')
  found[#found + 1] = status and { run, status } or nil
end
return answer(found)
