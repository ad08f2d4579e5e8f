-- needs: inbox, run_lock
-- Puts a request to cancel into the inbox of a live run, which may be quarantined since then.
local function request_cancel(run, event, quarantined_at)
  if quarantined_at then
    local lock = read_lock(run)
    -- An instance that holds it is cancelling it right now.
    if not lock or lock.expires_at <= now then
      redis.call('HSET', key('wf:run', run), 'cancel', event, 'lease', '0')
      redis.call('ZADD', key('wf:ready'), 0, run)
    end
    return
  end
  -- One request that waits is enough.
  local last = redis.call('LINDEX', key('wf:inbox', run), -1)
  if not last or string.sub(last, 1, 10) ~= '{"cancel":' then
    post(run, event)
  end
end
