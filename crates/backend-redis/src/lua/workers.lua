-- A page of the workers that have claimed.
local members, next_page = read_page(key('wf:workers'), argument(), number())
local items = {}
for index, worker in ipairs(members) do
  local found = redis.call('HMGET', key('wf:worker', worker), 'topics', 'capabilities', 'first_seen_at', 'last_seen_at',
    'is_draining')
  items[index] = { worker, found[1], found[2], found[3], found[4], found[5] }
end
return { 'ok', next_page, items }
