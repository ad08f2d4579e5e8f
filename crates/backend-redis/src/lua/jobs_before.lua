-- How many jobs stand before one in its queue, up to a bound; nothing if it does not wait.
local job, jobs_max = argument(), number()
local found = redis.call('HMGET', key('wf:job', job), 'topic', 'created_at', 'kind', 'moved')
if not found[1] then
  return { 'ok', false }
end
local queue, place = queue_key(found[1], found[3]), queue_place(job, found[2], found[4])
if not redis.call('ZSCORE', queue, place) then
  return { 'ok', false }
end
return { 'ok', integer(math.min(redis.call('ZLEXCOUNT', queue, '-', '(' .. place), jobs_max)) }
