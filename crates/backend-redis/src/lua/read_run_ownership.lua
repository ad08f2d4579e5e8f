-- needs: run_lock
-- Whether a run waits for the engine, and which instance holds it. A foreign lock has no name and no end.
local lock = read_lock(call.run)
local is_held = lock and lock.expires_at > now
return answer({
  now = now,
  is_ready = redis.call('ZSCORE', key('wf:ready'), call.run) ~= false,
  holder = is_held and { instance = lock.owner, ['until'] = lock.expires_at < math.huge and lock.expires_at },
})
