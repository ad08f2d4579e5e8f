-- A page of runs, newest first. It looks at a bounded number of rows, so that a rare filter still ends.
local after, limit, status, workflow = argument(), number(), argument(), argument()
local looked_at_max = 5000
local from = '+'
if after ~= '' then
  from = '(' .. after
end
local listed = redis.call('ZRANGE', key('wf:runs'), from, '-', 'BYLEX', 'REV', 'LIMIT', 0, looked_at_max + 1)
local items, last, bytes = {}, false, 0
for index, run in ipairs(listed) do
  if #items == limit or index > looked_at_max or bytes > answer_bytes_max then
    return { 'ok', last, items }
  end
  last = run
  local found = redis.call('HMGET', key('wf:run', run), 'status', 'workflow')
  if (status == '' or status == found[1]) and (workflow == '' or workflow == found[2]) then
    local item = redis.call('HMGET', key('wf:run', run), 'start', 'head')
    bytes = bytes + #item[1] + #item[2]
    items[#items + 1] = item
  end
end
return { 'ok', false, items }
