-- What must be true of the steps that wait for somebody: a worker's result, or a verdict.
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
  local answer = look('HSCAN', key('wf:steps', run), place == '' and '0' or place, 'COUNT', limit)
  if not answer then
    return {}, nil
  end
  local jobs = {}
  for index = 2, #answer[2], 2 do
    local is_read, job = pcall(awaited, answer[2][index])
    jobs[#jobs + 1] = is_read and job or nil
  end
  return jobs, answer[1] ~= '0' and answer[1] or nil
end)

-- Of whom a run's inbox tells. It is read once a call.
local told_of = {}
local function is_told(run, job)
  if not told_of[run] then
    told_of[run] = {}
    local from = 0
    repeat
      local events = redis.call('LRANGE', key('wf:inbox', run), from, from + 99)
      for _, event in ipairs(events) do
        local told = string.match(event, '^{"%a+":{[^{}]-"job":"([^"]+)"')
        if told then
          told_of[run][told] = true
        end
      end
      from = from + 100
    until #events < 100
  end
  return told_of[run][job]
end

rules.step_without_job = { {
  over = over_awaited,
  finds = function(id)
    local run, name = string.match(id, '^([^:]+):(.+)@%d+$')
    if not run or state_of_run(run) ~= 'live' then
      return nil
    end
    local open, status = awaited(look('HGET', key('wf:steps', run), name))
    if open ~= id or is_told(run, id) then
      return nil
    end
    if status == 'waiting' then
      return redis.call('HGET', key('wf:approval', id), 'verdict') ~= 'open'
        and 'the step waits for an approval that is not open',
        'nobody but a person can tell what was asked: cancel the run and start it again'
    end
    local job = redis.call('HMGET', key('wf:job', id), 'created_at', 'end_cause')
    return not job[1] and 'the step waits for a job that is not there'
      or job[2] and 'the step waits for a job that has ended, and nobody has told the run'
  end,
  mends = function(id)
    post(run_of(id), told_now(',"job":"' .. id .. '","outcome":"lost"}}'))
  end,
} }
