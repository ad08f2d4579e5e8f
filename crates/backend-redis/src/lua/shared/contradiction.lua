-- needs: fence, lease_check
-- Refuses a result that differs from the deferred one of the same job: its worker is late.
local function contradicts(job, outcome)
  local known = read_fields(key('wf:job', job), 'put_off_cause', 'put_off_result')
  if not known.put_off_cause or is_same_result({ cause = known.put_off_cause, result = known.put_off_result }, outcome) then
    return nil
  end
  return fenced(next_fence())
end
