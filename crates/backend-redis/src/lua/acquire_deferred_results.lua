-- needs: inbox, given, texts
-- The deferred results that are due. They are due again when their delivery is no longer in progress.
local jobs = given_before('put_off')
if not jobs then
  jobs = redis.call('ZRANGEBYSCORE', key('wf:put_off'), '-inf', integer(now), 'LIMIT', 0, call.limit)
  remember_given('put_off', jobs)
end
local results, bytes = {}, 0
for _, job in ipairs(jobs) do
  -- What does not fit into the answer is due as before.
  if bytes > answer_bytes_max then
    break
  end
  local found = read_fields(key('wf:job', job), 'put_off', 'fence', 'put_off_deliveries', 'put_off_since')
  if found.put_off then
    local outcome, outcome_bytes = string.sub(found.put_off, #event_before_outcome(job) + 1, -3), #found.put_off
    if outcome_after(found.put_off) then
      outcome, outcome_bytes = show_text('', 'outcome', job)
    end
    bytes = bytes + outcome_bytes
    redis.call('ZADD', key('wf:put_off'), integer(now + limits.deferral), job)
    results[#results + 1] = { job = job, fence = found.fence, outcome = outcome,
      deliveries = found.put_off_deliveries, waited = math.max(now - tonumber(found.put_off_since), 0) }
  else
    redis.call('ZREM', key('wf:put_off'), job)
  end
end
return answer(results)
