-- What a request that hands out jobs was given when it was asked first: its answer went astray, and it is told the same.
-- One word tells what kind of request it is.
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
