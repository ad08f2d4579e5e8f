local job = argument()
redis.call('ZREM', key('wf:dead_letters:index'), job)
if redis.call('HDEL', key('wf:dead_letters'), job) == 0 and not is_repeat then
  return { 'missing' }
end
return { 'ok' }
