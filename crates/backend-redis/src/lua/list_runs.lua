-- A page of runs, newest first. It looks at a bounded number of rows, so that a rare filter still ends.
local looked_at_max = 5000
local from = call.after and '(' .. call.after or '+'
local listed = redis.call('ZRANGE', key('wf:runs'), from, '-', 'BYLEX', 'REV', 'LIMIT', 0, looked_at_max + 1)
local items, last, bytes = {}, false, 0
for index, run in ipairs(listed) do
  if #items == call.limit or index > looked_at_max or bytes > answer_bytes_max then
    return answer({ next_page = last, items = items })
  end
  last = run
  local found = read_fields(key('wf:run', run), 'status', 'workflow')
  if (call.status or found.status) == found.status and (call.workflow or found.workflow) == found.workflow then
    local item = read_fields(key('wf:run', run), 'start', 'head')
    bytes = bytes + #item.start + #item.head
    items[#items + 1] = item
  end
end
return answer({ items = items })
