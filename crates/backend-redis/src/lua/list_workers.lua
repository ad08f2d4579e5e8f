-- needs: page, workers
-- A page of the workers that have claimed.
return answer_page(key('wf:workers'), function(worker)
  return read_worker(worker) or false
end)
