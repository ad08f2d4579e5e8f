-- needs: api_keys
-- Replaces an API key by a new one. Answers with the store's time.
local made_at, before = read_api_key(call.new_id)
if is_repeat and before == call.document then
  return answer(made_at)
end
local created_at, document = read_api_key(call.id)
if not document then
  return missing()
end
local old = cjson.decode(document)
if old.replaced_by then
  return conflict('key ' .. call.id .. ' was rotated already: ' .. old.replaced_by .. ' replaced it')
end
local refused = why_not_added(call.new_id, call.tenant)
if refused then
  return conflict(refused)
end
if old.replaces then
  remove_api_key(old.replaces)
end
old.expires_at = math.min(old.expires_at or call.ends_at, call.ends_at)
old.replaces, old.replaced_by = nil, call.new_id
write_api_key(call.id, created_at, cjson.encode(old))
write_api_key(call.new_id, integer(now), call.document)
count_one(call.tenant, 1)
return answer(now)
