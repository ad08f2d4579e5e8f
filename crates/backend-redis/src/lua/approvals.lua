-- A page of the approvals that are open, those of the newest runs first.
local members, next_page = read_page(key('wf:approvals:open'), argument(), number())
local items = {}
for index, job in ipairs(members) do
  items[index] = redis.call('HGET', key('wf:approval', job), 'approval')
end
return { 'ok', next_page, items }
