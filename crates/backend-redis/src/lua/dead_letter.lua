local letter = redis.call('HGET', key('wf:dead_letters'), argument())
if not letter then
  return { 'missing' }
end
return { 'ok', letter }
