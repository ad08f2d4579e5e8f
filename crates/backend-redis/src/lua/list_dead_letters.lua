-- needs: page
-- A page of dead letters, those of the newest runs first.
return answer_page(key('wf:dead_letters:index'), function(job)
  return redis.call('HGET', key('wf:dead_letters'), job)
end)
