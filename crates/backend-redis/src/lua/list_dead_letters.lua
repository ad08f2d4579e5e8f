-- needs: page
-- A page of dead letters, those of the newest runs first.
local members, next_page = read_page(key('wf:dead_letters:index'), call.after, call.limit)
local items = {}
for index, job in ipairs(members) do
  items[index] = redis.call('HGET', key('wf:dead_letters'), job)
end
return answer({ next_page = next_page, items = items })
