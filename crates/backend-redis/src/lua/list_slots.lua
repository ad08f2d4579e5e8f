-- needs: claims
-- The runs that hold the slots of a group, oldest first: their ids sort by time. The slots of the tenant have no time of
-- their own: a run holds one from its start.
local claim, held = claim_of(call.name, call.group), {}
if claim_of(call.name, '') == tenant_runs then
  for index, run in ipairs(redis.call('SORT', key('wf:runs:active'), 'ALPHA', 'LIMIT', 0, call.limit)) do
    held[index] = { run = run }
  end
  return answer(held)
end
for index, run in ipairs(redis.call('ZRANGE', key('wf:limit:live', claim), 0, call.limit - 1)) do
  held[index] = { run = run, since = redis.call('HGET', key('wf:run', run), 'slots_since') }
end
return answer(held)
