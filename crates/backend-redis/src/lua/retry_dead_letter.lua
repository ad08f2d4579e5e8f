-- Hands a dead letter to its run, if that lives: the letter leaves its list and waits in the run's inbox.
local job, run, event = argument(), argument(), argument()
local letter = redis.call('HGET', key('wf:dead_letters'), job)
if not letter then
  if is_repeat and redis.call('HGET', key('wf:job', job), 'retry_request') == request then
    return { 'ok', 'posted' }
  end
  return { 'missing' }
end
local status = redis.call('HGET', key('wf:run', run), 'status')
if not status then
  return { 'ok', 'gone' }
end
if final[status] then
  return { 'ok', 'ended' }
end
redis.call('HDEL', key('wf:dead_letters'), job)
redis.call('ZREM', key('wf:dead_letters:index'), job)
redis.call('HSET', key('wf:job', job), 'retry_request', request)
post(run, event .. letter .. '}}')
return { 'ok', 'posted' }
