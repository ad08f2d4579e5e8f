-- Jobs of one topic wait in a queue for each kind: what their worker must be capable of, as one name. The usual kind
-- has no name.
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

-- Puts a job into its queue, and marks its kind: the mark goes with the last job that waits. Whether it was not there
-- before.
local function put_in_queue(job, dispatched_at, topic, kind, moved)
  if kind and kind ~= '' then
    redis.call('ZADD', key('wf:kinds', topic), 0, kind)
  end
  return redis.call('ZADD', queue_key(topic, kind), 0, queue_place(job, dispatched_at, moved)) == 1
end

-- The same for a job that is written down.
local function enqueue(job)
  local found = redis.call('HMGET', key('wf:job', job), 'created_at', 'topic', 'kind', 'moved')
  return put_in_queue(job, unpack(found))
end
