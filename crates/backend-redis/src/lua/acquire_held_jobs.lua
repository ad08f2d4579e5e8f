-- needs: given, job_view, texts
-- The held jobs that are due. They are due again when the decision about them is no longer in progress.
local jobs = given_before('held')
if not jobs then
  jobs = redis.call('ZRANGEBYSCORE', key('wf:held'), '-inf', integer(now + call.ahead), 'LIMIT', 0, call.limit)
  remember_given('held', jobs)
end
local acquired, bytes = {}, 0
for _, job in ipairs(jobs) do
  -- What does not fit into the answer is due as before.
  if bytes > answer_bytes_max then
    break
  end
  local hash = key('wf:job', job)
  local found = read_fields(hash, 'job', 'held', 'held_detail', 'held_since', 'held_looks', 'held_until', 'budget', 'place')
  if found.job and found.held and found.held_until ~= '' then
    local document, document_bytes = show_text(found.job, 'job', job)
    bytes = bytes + document_bytes
    found.held_until = integer(now + call.in_progress)
    redis.call('ZADD', key('wf:held'), found.held_until, job)
    redis.call('HSET', hash, 'held_until', found.held_until)
    acquired[#acquired + 1] = { job = document, hold = hold_of(found), now = now }
  else
    redis.call('ZREM', key('wf:held'), job)
  end
end
return answer(acquired)
