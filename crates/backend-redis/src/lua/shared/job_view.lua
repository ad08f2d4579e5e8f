-- A job with its lease and its end, as far as there are any.
local function view_job(job)
  return redis.call('HMGET', key('wf:job', job), 'job', 'created_at', 'worker', 'fence', 'ttl', 'expires_at',
    'claimed_at', 'end_cause', 'end_at', 'end_held', 'end_fence', 'end_worker')
end
