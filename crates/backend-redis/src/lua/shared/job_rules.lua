-- needs: order, queue, jobs, inspection
-- What must be true of jobs: in the list of all, in a queue or with a worker, or ended.
local function read_job(job)
  local found = look('HMGET', key('wf:job', job), 'created_at', 'topic', 'end_cause', 'fence', 'expires_at', 'put_off',
    'held', 'held_until', 'kind', 'moved', 'queue_until')
  if not found then
    return nil
  end
  return { is_there = found[1], created_at = found[1], topic = found[2], is_ended = found[3], fence = found[4],
    expires_at = found[5], put_off = found[6], held = found[7], held_until = found[8], kind = found[9] or nil,
    moved = found[10] or nil, queue_until = found[11] or nil, is_open = found[1] and not found[3], id = job }
end

local function listed_at(job)
  return sortable(tonumber(job.created_at)) .. '/' .. job.id
end

local function queued_at(job)
  return queue_key(job.topic, job.kind), queue_place(job.id, job.created_at, job.moved)
end

-- The id stands behind the time and a slash.
local function at_place(place)
  return string.sub(place, 17)
end

local listed_jobs = over_ordered('wf:jobs')
local function over_jobs(after, limit)
  local places, next_place = listed_jobs(after, limit)
  for index, place in ipairs(places) do
    places[index] = at_place(place)
  end
  return places, next_place
end

local over_jobs_of_runs = over_runs(function(run, place, limit)
  return scanned('SSCAN', key('wf:run:jobs', run), place, limit, 1)
end)

local lease_fields = { 'fence', 'worker', 'ttl', 'expires_at', 'claimed_at', 'request', 'edge', 'lease_deadline' }

rules.lease_without_job = { {
  over = over_scored('wf:leases'),
  finds = function(id)
    local job = read_job(id)
    if not job or not is_scored('wf:leases', id) then
      return nil
    end
    return not job.is_there and 'a lease is on a job that is not there'
      or job.is_ended and 'a lease is on a job that has ended'
      or not job.fence and 'a lease is on a job that no worker has'
  end,
  repairs = function(id)
    redis.call('ZREM', key('wf:leases'), id)
  end,
}, {
  over = over_jobs,
  finds = function(id)
    local job = read_job(id)
    return job and job.is_ended and job.fence and not is_scored('wf:leases', id)
      and 'the job has ended and has a lease still'
  end,
  repairs = function(id)
    redis.call('HDEL', key('wf:job', id), unpack(lease_fields))
  end,
} }

rules.lease_not_indexed = { {
  over = over_jobs,
  finds = function(id)
    local job = read_job(id)
    if not job or not job.is_open or not job.fence then
      return nil
    end
    local ends_at = is_scored('wf:leases', id)
    return ends_at ~= nil and tonumber(ends_at) ~= tonumber(job.expires_at)
      and 'the lease of the job is not in the index at its expiry'
  end,
  repairs = function(id)
    redis.call('ZADD', key('wf:leases'), redis.call('HGET', key('wf:job', id), 'expires_at'), id)
  end,
} }

rules.job_in_no_index = { {
  over = over_jobs,
  finds = function(id)
    local job = read_job(id)
    if not job or not job.is_open or job.fence or state_of_run(run_of(id)) ~= 'live' then
      return nil
    end
    if job.queue_until and is_scored('wf:unclaimed', id) == false then
      return 'no worker has claimed the job, and no time is set to end its wait'
    end
    if job.held then
      return job.held_until ~= '' and is_scored('wf:held', id) == false
        and 'the job is held, and is due for no policy'
    end
    local queue, place = queued_at(job)
    return look('ZSCORE', queue, place) == false and 'the job is open, in no queue and with no worker'
  end,
  repairs = function(id)
    local job = read_job(id)
    if job.queue_until then
      redis.call('ZADD', key('wf:unclaimed'), job.queue_until, id)
    end
    if not job.held then
      release_job(id)
    elseif job.held_until ~= '' then
      redis.call('ZADD', key('wf:held'), job.held_until, id)
    end
  end,
} }

-- An entry is named by its job, and found by its queue and place.
rules.queue_entry_without_job = { {
  front = 'wf:queue',
  over = function(after, limit)
    local queue, from = string.match(after, '^(%S*) ?(%S*)$')
    local queues, subjects, places = call.names, {}, {}
    table.sort(queues, precedes)
    for _, name in ipairs(queues) do
      if not precedes(name, queue) then
        local after_place = name == queue and from ~= '' and '(' .. from or '-'
        local found = look('ZRANGE', key('wf:queue', name), after_place, '+', 'BYLEX', 'LIMIT', 0, limit) or {}
        for _, place in ipairs(found) do
          subjects[#subjects + 1] = at_place(place)
          places[#subjects] = name .. ' ' .. place
        end
        if #found == limit then
          return subjects, name .. ' ' .. found[limit], places
        end
      end
    end
    return subjects, nil, places
  end,
  finds = function(id, where)
    local job = read_job(id)
    local name, place = string.match(where, '^(%S+) (%S+)$')
    if not job or not name or not look('ZSCORE', key('wf:queue', name), place) then
      return nil
    end
    if not job.is_there then
      return 'a queue names a job that is not there'
    end
    local queue, own_place = queued_at(job)
    return job.is_ended and 'a queue names a job that has ended'
      or job.fence and 'a queue names a job that a worker has'
      or job.held and 'a queue names a job that is held'
      or (queue ~= key('wf:queue', name) or own_place ~= place) and 'a queue names a job at a place that is not its own'
  end,
  repairs = function(_, where)
    local name, place = string.match(where, '^(%S+) (%S+)$')
    redis.call('ZREM', key('wf:queue', name), place)
  end,
} }

rules.job_not_listed = { {
  over = over_jobs_of_runs,
  finds = function(id)
    local job = read_job(id)
    return job and job.is_there and is_scored('wf:jobs', listed_at(job)) == false
      and 'the job is not in the list of jobs'
  end,
  repairs = function(id)
    redis.call('ZADD', key('wf:jobs'), 0, listed_at(read_job(id)))
  end,
}, {
  over = over_jobs,
  finds = function(id)
    local job, state = read_job(id), state_of_run(run_of(id))
    return job and job.is_there and (state == 'live' or state == 'ended')
      and look('SISMEMBER', key('wf:run:jobs', run_of(id)), id) == 0 and 'the job is not in the list of its run\'s jobs'
  end,
  repairs = function(id)
    redis.call('SADD', key('wf:run:jobs', run_of(id)), id)
  end,
} }

rules.job_of_ended_run = { {
  over = over_jobs,
  finds = function(id)
    local job, state = read_job(id), state_of_run(run_of(id))
    return job and job.is_open and (state == 'gone' and 'the job is open, and its run is not there'
      or state == 'ended' and 'the job is open, and its run has ended')
  end,
  repairs = function(id)
    end_job(id, 'revoked')
  end,
} }

rules.kept_result_not_due = { {
  over = over_scored('wf:put_off'),
  finds = function(id)
    local job = read_job(id)
    return job and is_scored('wf:put_off', id)
      and (not job.is_open or not job.put_off) and 'a result is due for a job that is not open or has none'
  end,
  repairs = function(id)
    redis.call('ZREM', key('wf:put_off'), id)
  end,
}, {
  over = over_jobs,
  finds = function(id)
    local job = read_job(id)
    if not job or not job.put_off or is_scored('wf:put_off', id) ~= false then
      return nil
    end
    return job.is_open and 'a result is kept for another delivery, and is never due'
      or 'a result is kept for a job that has ended'
  end,
  repairs = function(id)
    if read_job(id).is_open then
      redis.call('ZADD', key('wf:put_off'), integer(now), id)
    else
      redis.call('HDEL', key('wf:job', id), 'put_off', 'put_off_cause', 'put_off_result', 'put_off_deliveries',
        'put_off_since', 'put_off_usage')
    end
  end,
} }
