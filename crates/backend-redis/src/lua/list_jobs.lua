-- needs: job_view
-- A page of jobs, newest first. It looks at a bounded number of rows, so that a rare state still ends.
local wanted = call.state
local looked_at_max = 5000
local states = { completed = 'succeeded', failed = 'failed', lost = 'lost', revoked = 'cancelled',
  cancelled = 'cancelled', denied = 'denied' }

local function is_wanted(job)
  if not wanted then
    return true
  end
  local found = redis.call('HMGET', key('wf:job', job), 'end_cause', 'fence', 'held')
  if found[1] then
    return states[found[1]] == wanted
  end
  return (found[2] and 'running' or found[3] and 'held' or 'queued') == wanted
end

local from = call.after and '(' .. call.after or '+'
local listed = redis.call('ZRANGE', key('wf:jobs'), from, '-', 'BYLEX', 'REV', 'LIMIT', 0, looked_at_max + 1)
local items, last, bytes = {}, false, 0
for index, place in ipairs(listed) do
  if #items == call.limit or index > looked_at_max or bytes > answer_bytes_max then
    return answer({ next_page = last, items = items })
  end
  last = place
  -- The id stands behind the time and a slash.
  local job = string.sub(place, 17)
  if is_wanted(job) then
    local item = view_job(job)
    bytes = bytes + #item.job
    items[#items + 1] = item
  end
end
return answer({ items = items })
