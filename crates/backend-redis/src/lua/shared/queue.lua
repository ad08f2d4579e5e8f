-- Jobs of one topic wait in a queue for each kind: what their worker must be capable of, as one word. The usual kind
-- has no word.
local function queue_key(topic, kind)
  if kind and kind ~= '' then
    return key('wf:queue', topic .. '+' .. kind)
  end
  return key('wf:queue', topic)
end

-- Where a job stands in its queue: when it was dispatched, moved by its priority.
local function queue_place(job, dispatched_at, moved)
  return sortable(math.max(tonumber(dispatched_at) + tonumber(moved or 0), 0)) .. '/' .. job
end
