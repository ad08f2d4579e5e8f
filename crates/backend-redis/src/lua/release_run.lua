-- needs: run_lock
-- Releases a run. Another instance's lease is left alone; a run that is already released is fine.
if tonumber(redis.call('HGET', key('wf:run', call.run), 'lease') or '0') == call.fence then
  redis.call('HDEL', key('wf:run', call.run), 'lease')
  release_lock(call.run, call.fence)
end
return answer()
