-- What a caught error says.
local function reason_of(failure)
  return type(failure) == 'table' and failure.err or tostring(failure)
end

-- What Redis itself refuses before anything is written: it is not the data's fault.
local function is_refusal_of_redis(reason)
  for _, code in ipairs({ 'OOM', 'READONLY', 'MISCONF', 'NOREPLICAS' }) do
    if string.sub(reason, 1, #code) == code then
      return true
    end
  end
  return false
end

-- Runs a verb. Damaged data is reported as such: a person has to look at it, and repeating the call is in vain.
local function guarded(verb)
  local is_done, reply = pcall(verb)
  if is_done then
    return reply
  end
  local reason = reason_of(reply)
  if is_refusal_of_redis(reason) then
    return redis.error_reply(reason)
  end
  return answer({ refused = 'damaged', reason = reason })
end
