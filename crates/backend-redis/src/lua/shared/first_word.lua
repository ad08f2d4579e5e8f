-- A worker that says something else about its job than what waits for another delivery is late. Nothing, or the refusal.
local function contradicts(job, cause)
  local known = redis.call('HGET', key('wf:job', job), 'put_off_cause')
  return known and known ~= cause and { 'fenced', integer(next_fence()) } or nil
end
