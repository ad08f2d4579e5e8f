-- Whether a run waits for the engine, and who holds it. What is not ours has no name and no end.
local run = argument()
local is_ready = redis.call('ZSCORE', key('wf:ready'), run) and '1' or '0'
local lock, hold = read_lock(run), {}
if lock and lock.expires_at > now then
  hold = { lock.owner, lock.expires_at < math.huge and integer(lock.expires_at) or '' }
end
return { 'ok', integer(now), is_ready, hold }
