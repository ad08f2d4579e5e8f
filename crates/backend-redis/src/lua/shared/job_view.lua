-- A job with its lease, its policy hold and its end, as far as there are any.
local function view_job(job)
  return read_fields(key('wf:job', job), 'job', 'created_at', 'worker', 'fence', 'ttl', 'expires_at', 'claimed_at',
    'held', 'held_detail', 'held_since', 'held_looks', 'held_until', 'end_cause', 'end_at', 'end_held', 'end_fence',
    'end_worker')
end
