-- needs: workflows, page
-- A page of the current versions, the last saved first.
return answer_page(key('wf:defs'), function(place)
  -- The id stands behind the time and a slash.
  local id = string.sub(place, 17)
  return read_version(id, redis.call('HGET', key('wf:def', id), 'current')) or false
end)
