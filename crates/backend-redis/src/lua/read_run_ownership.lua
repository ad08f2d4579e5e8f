-- needs: run_lock
-- Whether a run waits for the engine, and which instance holds it. A foreign lock has no name and no end.
local lock = read_lock(call.run)
local found = read_fields(key('wf:run', call.run), 'status', 'lease', 'tries', 'quarantined_at')
-- The name of a lock says nothing of the tenant: it may be that of another tenant's run.
local is_held = lock and found.status and lock.expires_at > now
local tries = found.lease and not is_held and tonumber(found.tries or '1') or 0
return answer({
  now = now,
  is_ready = redis.call('ZSCORE', key('wf:ready'), call.run) ~= false,
  holder = is_held and { instance = lock.owner, ['until'] = lock.expires_at < math.huge and lock.expires_at },
  abandoned = tries,
  quarantine = found.quarantined_at and not is_held and { since = tonumber(found.quarantined_at), tries = tries },
})
