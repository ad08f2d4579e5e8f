-- needs: given, texts
-- The children that are to be started and are due. They are due again when their start is no longer in progress.
local due = key('wf:children:due')
local children = given_before('children')
if not children then
  children = redis.call('ZRANGEBYSCORE', due, '-inf', integer(now), 'LIMIT', 0, call.limit)
  remember_given('children', children)
end
local acquired, bytes = {}, 0
for _, child in ipairs(children) do
  -- What does not fit into the answer is due as before.
  if bytes > answer_bytes_max then
    break
  end
  local document = redis.call('HGET', key('wf:children'), child)
  if document then
    local shown, document_bytes = show_text(document, 'child', child)
    bytes = bytes + document_bytes
    redis.call('ZADD', due, integer(now + call.in_progress), child)
    acquired[#acquired + 1] = shown
  else
    redis.call('ZREM', due, child)
  end
end
return answer(acquired)
