-- needs: job_view, page
-- A page of jobs, newest first.
return answer_page(key('wf:jobs'), function(place)
  -- The id stands behind the time and a slash.
  local job = string.sub(place, 17)
  if call.state and state_of(read_fields(key('wf:job', job), 'end_cause', 'worker', 'held')) ~= call.state then
    return nil
  end
  return view_job(job)
end, 5000)
