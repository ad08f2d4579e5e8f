if redis.call('HDEL', key('sys:keys'), call.id) == 0 and not is_repeat then
  return missing()
end
return answer()
