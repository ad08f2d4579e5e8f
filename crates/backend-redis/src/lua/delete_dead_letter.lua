redis.call('ZREM', key('wf:dead_letters:index'), call.job)
if redis.call('HDEL', key('wf:dead_letters'), call.job) == 0 and not is_repeat then
  return missing()
end
return answer()
