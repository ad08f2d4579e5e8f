-- A worker on NATS gets no new jobs from now on, or gets them again.
if not redis.call('ZSCORE', key('sys:registry:seen'), call.worker) then
  return missing()
end
if call.is_draining then
  redis.call('SADD', key('sys:registry:draining'), call.worker)
else
  redis.call('SREM', key('sys:registry:draining'), call.worker)
end
return answer()
