-- Looks at the subject of a finding once more, and mends it in the same step.
local subject, where = argument(), argument()

local function mend(one)
  local detail, obstacle = one.finds(subject, where)
  if not detail then
    return 'nothing'
  end
  if obstacle then
    return 'impossible', obstacle
  end
  one.mends(subject, where)
  return 'mended'
end

local outcome, why = 'nothing', ''
for _, one in ipairs(rules[invariant]) do
  local is_done, word, reason = pcall(mend, one)
  if not is_done then
    local failure = reason_of(word)
    if is_refusal_of_redis(failure) then
      return redis.error_reply(failure)
    end
    word, reason = 'impossible', 'what is written there cannot be read: ' .. failure
  end
  if word == 'impossible' or outcome == 'nothing' then
    outcome, why = word, reason or ''
  end
end
return { 'ok', outcome, why }
