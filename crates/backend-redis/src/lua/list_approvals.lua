-- needs: page
-- A page of open approvals, those of the newest runs first.
local members, next_page = read_page(key('wf:approvals:open'), call.after, call.limit)
local items = {}
for index, job in ipairs(members) do
  items[index] = redis.call('HGET', key('wf:approval', job), 'approval')
end
return answer({ next_page = next_page, items = items })
