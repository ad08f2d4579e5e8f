-- needs: job_view
local view = view_job(call.job)
return answer(view.job.new and view)
