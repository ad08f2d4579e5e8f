-- needs: page
-- A page of open approvals, those of the newest runs first.
return answer_page(key('wf:approvals:open'), function(job)
  return redis.call('HGET', key('wf:approval', job), 'approval')
end)
