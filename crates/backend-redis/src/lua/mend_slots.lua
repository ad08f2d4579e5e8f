-- Compares slots with the runs that hold them. At the beginning the slots of runs that have ended or are gone are taken
-- back; then a page of runs, newest first: each that lives has a slot afterwards.
local after, limit, slots_max = argument(), number(), number()
local active, found, mended = key('wf:runs:active'), 0, 0

-- Its status, false if it is gone, a table if it cannot be read.
local function status_of(run)
  return redis.pcall('HGET', key('wf:run', run), 'status')
end

if after == '' and redis.call('SCARD', active) <= slots_max then
  for _, run in ipairs(redis.call('SMEMBERS', active)) do
    local status = status_of(run)
    if type(status) ~= 'table' and (not status or final[status]) then
      redis.call('SREM', active, run)
      found, mended = found + 1, mended + 1
    end
  end
end
local runs, next_page = read_page(key('wf:runs'), after, limit)
for _, run in ipairs(runs) do
  local status = status_of(run)
  if type(status) == 'table' then
    found = found + 1
  elseif status and not final[status] and redis.call('SADD', active, run) == 1 then
    found, mended = found + 1, mended + 1
  end
end
return { 'ok', integer(found), integer(mended), next_page }
