-- The jobs that a call was given when it was sent first: its answer was lost, and the repeated call gets the same.
-- `kind` names the kind of call.
local function given_before(kind)
  if not is_repeat then
    return nil
  end
  local last = redis.call('HMGET', key('wf:tenant'), kind .. '_request', kind .. '_given')
  if last[1] ~= request then
    return nil
  end
  local given = {}
  for job in string.gmatch(last[2], '%S+') do
    given[#given + 1] = job
  end
  return given
end

local function remember_given(kind, jobs)
  if #jobs > 0 then
    redis.call('HSET', key('wf:tenant'), kind .. '_request', request, kind .. '_given', table.concat(jobs, ' '))
  end
end
