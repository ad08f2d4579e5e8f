-- needs: fence
-- A job as a call of its worker finds it: 'held', with its lease, or 'ended' while the caller held it. Else nothing,
-- and the refusal: anything but the latest fence is stale.
local function check_lease(job, fence)
  local created_at, end_cause, end_held, end_fence, current, expires_at, ttl, worker, token =
    unpack(redis.call('HMGET', key('wf:job', job), 'created_at', 'end_cause', 'end_held', 'end_fence', 'fence',
      'expires_at', 'ttl', 'worker', 'request'))
  if not created_at then
    return nil, missing()
  end
  if end_cause then
    if fence ~= 0 and tonumber(end_held) == fence then
      return 'ended', { cause = end_cause, fence = end_fence }
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
  return 'held', { ttl = tonumber(ttl), worker = worker, token = token, expires_at = expires_at }
end

-- The same for a result that ends the job: its lease, or nothing and the reply. The same result again changes nothing.
local function check_result(job, fence, cause)
  local state, found = check_lease(job, fence)
  if not state then
    return nil, found
  end
  if state == 'held' then
    return found
  end
  if found.cause == cause then
    return nil, answer({ outcome = 'already_recorded' })
  end
  return nil, fenced(found.fence)
end
