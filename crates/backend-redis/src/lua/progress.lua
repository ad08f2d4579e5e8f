-- Writes how far a worker is into the run's timeline.
local job, run, fence, event = argument(), argument(), number(), argument()
local hash = key('wf:job', job)
if is_repeat and redis.call('HGET', hash, 'progress_request') == request then
  return { 'ok' }
end
local word, found = standing(job, fence)
if not word then
  return found
end
if word == 'ended' then
  return { 'fenced', found.fence }
end
redis.call('RPUSH', key('wf:timeline', run), '{"at":' .. integer(now) .. event)
redis.call('HSET', hash, 'progress_request', request)
return { 'ok' }
