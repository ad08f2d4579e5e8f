-- needs: workflows, page
-- A page of the current versions, the last saved first.
local members, next_page = read_page(key('wf:defs'), call.after, call.limit)
local items = {}
for index, place in ipairs(members) do
  -- The id stands behind the time and a slash.
  local id = string.sub(place, 17)
  items[index] = read_version(id, redis.call('HGET', key('wf:def', id), 'current')) or false
end
return answer({ next_page = next_page, items = items })
