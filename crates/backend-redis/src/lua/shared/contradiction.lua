-- needs: fence
-- Refuses a result that differs from the deferred one of the same job: its worker is late.
local function contradicts(job, cause)
  local known = redis.call('HGET', key('wf:job', job), 'put_off_cause')
  return known and known ~= cause and fenced(next_fence()) or nil
end
