-- needs: status, page
-- Compares slots with the runs that hold them. At the beginning the slots of runs that have ended or are missing are
-- released; then a page of runs, newest first: each live one that does not wait has a slot afterwards.
local active, found, repaired = key('wf:runs:active'), 0, 0

-- Its status, false if it is missing, a table if it cannot be read.
local function status_of(run)
  return redis.pcall('HGET', key('wf:run', run), 'status')
end

if not call.after and redis.call('SCARD', active) <= limits.looked_at_max then
  for _, run in ipairs(redis.call('SMEMBERS', active)) do
    local status = status_of(run)
    if type(status) ~= 'table' and (not status or final[status]) then
      redis.call('SREM', active, run)
      found, repaired = found + 1, repaired + 1
    end
  end
end
local runs, next_page = read_page(key('wf:runs'), call.after, call.limit)
for _, run in ipairs(runs) do
  local status = status_of(run)
  if type(status) == 'table' then
    found = found + 1
  elseif status and not final[status] and status ~= 'queued' and not redis.call('HGET', key('wf:run', run), 'parent')
    and redis.call('SADD', active, run) == 1 then
    found, repaired = found + 1, repaired + 1
  end
end
return answer({ found = found, repaired = repaired, next = next_page })
