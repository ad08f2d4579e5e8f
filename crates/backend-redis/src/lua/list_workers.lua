-- needs: page
-- A page of the workers that have claimed.
local members, next_page = read_page(key('wf:workers'), call.after, call.limit)
local items = {}
for index, worker in ipairs(members) do
  items[index] = read_fields(key('wf:worker', worker), 'topics', 'capabilities', 'first_seen_at', 'last_seen_at',
    'is_draining')
  items[index].worker = worker
end
return answer({ next_page = next_page, items = items })
