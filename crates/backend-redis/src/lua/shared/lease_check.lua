-- needs: fence
-- A job as a call of its worker finds it: 'held', with its lease, or 'ended' while the caller held it. Else nothing,
-- and the refusal: anything but the latest fence is stale.
local function check_lease(job, fence)
  local created_at, end_cause, end_held, end_fence, end_result, current, expires_at, ttl, worker, token, edge,
    deadline_at =
    unpack(redis.call('HMGET', key('wf:job', job), 'created_at', 'end_cause', 'end_held', 'end_fence', 'end_result',
      'fence', 'expires_at', 'ttl', 'worker', 'request', 'edge', 'lease_deadline'))
  if not created_at then
    return nil, missing()
  end
  if end_cause then
    if fence ~= 0 and tonumber(end_held) == fence then
      return 'ended', { cause = end_cause, fence = end_fence, result = end_result }
    end
    return nil, fenced(end_fence)
  end
  if not current then
    return nil, fenced(0)
  end
  if tonumber(current) ~= fence then
    return nil, fenced(current)
  end
  if tonumber(expires_at) <= now then
    -- It has expired, though no call has noticed yet: the next fence already belongs to another lease.
    return nil, fenced(next_fence())
  end
  return 'held', { ttl = tonumber(ttl), worker = worker, token = token, expires_at = expires_at, edge = edge,
    deadline_at = deadline_at and tonumber(deadline_at) or nil }
end

-- Whether the result that ended a job, or waits for it, is this outcome.
local function is_same_result(known, outcome)
  return known.cause == outcome.cause and (not known.result or known.result == outcome.fingerprint)
end

-- Refuses a result that came over another edge than the lease was given out over, as far as that was recorded.
local function refuse_edge(lease, edge)
  return edge and lease.edge and edge ~= lease.edge and conflict('the job was not given out over this edge') or nil
end

-- The same for a result that ends the job: its lease, or nothing and the reply. The same result again changes nothing.
local function check_result(job, fence, edge, outcome)
  local state, found = check_lease(job, fence)
  if not state then
    return nil, found
  end
  if state == 'held' then
    local refusal = refuse_edge(found, edge)
    return not refusal and found or nil, refusal
  end
  if is_same_result(found, outcome) then
    return nil, answer({ outcome = 'already_recorded' })
  end
  return nil, fenced(found.fence)
end
