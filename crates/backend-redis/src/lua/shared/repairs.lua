-- needs: failures, inspection
-- Checks the subject of a finding once more, and repairs it in the same step.
local function repair(look_at)
  local detail, obstacle = look_at.finds(call.subject, call.place)
  if not detail then
    return 'nothing_to_do'
  end
  if obstacle then
    return 'impossible', obstacle
  end
  look_at.repairs(call.subject, call.place)
  return 'repaired'
end

local function repair_all()
  local outcome, reason = 'nothing_to_do', nil
  for _, look_at in ipairs(rules[call.invariant]) do
    local is_done, result, obstacle = pcall(repair, look_at)
    if not is_done then
      local failure = reason_of(result)
      if is_refusal_of_redis(failure) then
        return redis.error_reply(failure)
      end
      result, obstacle = 'impossible', 'what is written there cannot be read: ' .. failure
    end
    if result == 'impossible' or outcome == 'nothing_to_do' then
      outcome, reason = result, obstacle
    end
  end
  return answer({ outcome = outcome, reason = reason })
end
