if redis.call('HDEL', key('sys:keys'), argument()) == 0 and not is_repeat then
  return { 'missing' }
end
return { 'ok' }
