-- A page of dead letters, those of the newest runs first.
local members, next_page = read_page(key('wf:dead_letters:index'), argument(), number())
local items = {}
for index, job in ipairs(members) do
  items[index] = redis.call('HGET', key('wf:dead_letters'), job)
end
return { 'ok', next_page, items }
