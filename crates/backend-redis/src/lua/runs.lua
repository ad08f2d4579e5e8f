-- A page of runs, newest first. It looks at a bounded number of rows, so that a rare filter still ends.
local after, limit, status, workflow = argument(), number(), argument(), argument()
local looked_at_max = 5000
local from = '+'
if after ~= '' then
  from = '(' .. after
end
local listed = redis.call('ZRANGE', key('wf:runs'), from, '-', 'BYLEX', 'REV', 'LIMIT', 0, looked_at_max + 1)
local items, last = {}, false
for index, run in ipairs(listed) do
  if #items == limit or index > looked_at_max then
    return { 'ok', last, items }
  end
  last = run
  local found = redis.call('HMGET', key('wf:run', run), 'status', 'workflow')
  if (status == '' or status == found[1]) and (workflow == '' or workflow == found[2]) then
    items[#items + 1] = redis.call('HMGET', key('wf:run', run), 'start', 'head')
  end
end
return { 'ok', false, items }
