-- A page of the current versions, the last saved first.
local members, next_page = read_page(key('wf:defs'), argument(), number())
local items = {}
for index, place in ipairs(members) do
  -- The id stands behind the time and a slash.
  local id = string.sub(place, 17)
  local version = redis.call('HGET', key('wf:def', id), 'current')
  local found = redis.call('HMGET', key('wf:def', id .. ':' .. version), 'document', 'created_at')
  items[index] = { id, version, found[1], found[2] }
end
return { 'ok', next_page, items }
