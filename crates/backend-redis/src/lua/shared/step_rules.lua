-- needs: inbox, inspection
-- What must be true of the steps that wait: for a worker's result, or a verdict.
--
-- The job that a step waits for, or nothing.
local function awaited(document)
  -- Most steps have ended: the text alone tells, and only what may be open is read.
  if not document or not string.find(document, '"job_open":true', 1, true) then
    return nil
  end
  local step = cjson.decode(document)
  return step.job_open == true and step.job or nil, step.status
end

local over_awaited = over_runs(function(run, place, limit)
  if state_of_run(run) ~= 'live' then
    return {}, nil
  end
  local reply = look('HSCAN', key('wf:steps', run), place == '' and '0' or place, 'COUNT', limit)
  if not reply then
    return {}, nil
  end
  local jobs = {}
  for index = 2, #reply[2], 2 do
    local step = look_at_text(reply[2][index], 'step', run .. ':' .. reply[2][index - 1])
    local is_read, job = pcall(awaited, step)
    jobs[#jobs + 1] = is_read and job or nil
  end
  return jobs, reply[1] ~= '0' and reply[1] or nil
end)

-- The jobs that a run's inbox is about. It is read once a call.
local inbox_jobs = {}
local function is_in_inbox(run, job)
  if not inbox_jobs[run] then
    inbox_jobs[run] = {}
    local from = 0
    repeat
      local events = redis.call('LRANGE', key('wf:inbox', run), from, from + 99)
      for _, event in ipairs(events) do
        local known = string.match(event, '^{"%a+":{[^{}]-"job":"([^"]+)"')
        if known then
          inbox_jobs[run][known] = true
        end
      end
      from = from + 100
    until #events < 100
  end
  return inbox_jobs[run][job]
end

rules.step_without_job = { {
  over = over_awaited,
  finds = function(id)
    local run, name = string.match(id, '^([^:]+):(.+)@%d+$')
    if not run or state_of_run(run) ~= 'live' then
      return nil
    end
    local open, status = awaited(look_at_text(look('HGET', key('wf:steps', run), name), 'step', run .. ':' .. name))
    if open ~= id or is_in_inbox(run, id) then
      return nil
    end
    if status == 'waiting' then
      return redis.call('HGET', key('wf:approval', id), 'verdict') ~= 'open'
        and 'step ' .. name .. ' waits for an approval that is not open',
        'it needs a decision by hand: cancel the run and start it again'
    end
    local job = redis.call('HMGET', key('wf:job', id), 'created_at', 'end_cause')
    local waits = 'step ' .. name .. ' waits for the job, which '
    return not job[1] and waits .. 'does not exist' or job[2] and waits .. 'has ended without a result'
  end,
  repairs = function(id)
    post_outcome(id, '"lost"')
  end,
} }
