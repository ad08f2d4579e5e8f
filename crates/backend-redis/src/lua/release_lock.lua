-- needs: locks
-- Ends a lease, by its holder or by an operator. Ended the same way before, it is fine: only the answer was lost.
local token, ending = call.token, call.ending or '{"cause":"released"}'
return decide(function(lock)
  local grant = live_grant(lock, token)
  if not grant then
    local ended = not read_grant(lock, token) and redis.call('HGET', lock.hash, 'e:' .. token)
    local cause = '"cause":"(%l+_?%l*)"'
    if not ended or string.match(ended, cause) ~= string.match(ending, cause) then
      return refusal(lock, token)
    end
  end
  purge(lock)
  if grant then
    end_hold(lock, grant, now, ending)
  end
  local turn = whose_turn(lock)
  save(lock)
  return answer({ answer = {}, next = turn })
end)
