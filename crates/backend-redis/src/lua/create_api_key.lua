-- needs: api_keys
-- Saves a new API key. Answers with the store's time.
local created_at, document = read_api_key(call.id)
if is_repeat and document == call.document then
  return answer(created_at)
end
local refused = why_not_added(call.id, call.tenant)
if refused then
  return conflict(refused)
end
write_api_key(call.id, integer(now), call.document)
count_one(call.tenant, 1)
return answer(now)
