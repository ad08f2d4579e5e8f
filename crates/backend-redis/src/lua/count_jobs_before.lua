-- needs: queue
-- How many jobs stand before one in its queue, up to a bound; absent if it does not wait.
local found = read_fields(key('wf:job', call.job), 'topic', 'created_at', 'kind', 'moved')
if not found.topic then
  return answer()
end
local queue = queue_key(found.topic, found.kind)
local place = queue_place(call.job, found.created_at, found.moved)
if not redis.call('ZSCORE', queue, place) then
  return answer()
end
return answer(math.min(redis.call('ZLEXCOUNT', queue, '-', '(' .. place), limits.jobs_before_max))
