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
