-- A job as one of its worker's calls finds it: 'held', with its lease, or 'ended' while the caller held it. Else nothing,
-- and the refusal: anything but the latest fence is stale.
local function standing(job, fence)
  local found = redis.call('HMGET', key('wf:job', job), 'created_at', 'end_cause', 'end_held', 'end_fence', 'fence',
    'expires_at', 'ttl', 'worker', 'request')
  if not found[1] then
    return nil, { 'missing' }
  end
  if found[2] then
    if fence ~= 0 and tonumber(found[3]) == fence then
      return 'ended', { cause = found[2], fence = found[4] }
    end
    return nil, { 'fenced', found[4] }
  end
  if not found[5] then
    return nil, { 'fenced', '0' }
  end
  if tonumber(found[5]) ~= fence then
    return nil, { 'fenced', found[5] }
  end
  if tonumber(found[6]) <= now then
    -- Its time is over, though nobody has noticed yet: the next fence is already somebody else's.
    return nil, { 'fenced', integer(next_fence()) }
  end
  return 'held', { ttl = tonumber(found[7]), worker = found[8], token = found[9], expires_at = found[6] }
end

-- The same for a result that ends the job so: its lease, or nothing and the answer. The same result again is nothing new.
local function undecided(job, fence, cause)
  local word, found = standing(job, fence)
  if not word then
    return nil, found
  end
  if word == 'held' then
    return found
  end
  if found.cause == cause then
    return nil, { 'ok', 'already' }
  end
  return nil, { 'fenced', found.fence }
end
