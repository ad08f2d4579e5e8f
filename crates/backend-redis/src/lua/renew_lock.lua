-- needs: locks
-- Extends a lease from now on. One that has expired cannot be revived.
local token = call.token
return decide(function(lock)
  local grant = live_grant(lock, token)
  if not grant then
    return refusal(lock, token)
  end
  purge(lock)
  grant.expires_at = now + call.ttl
  local text = write_grant(lock, grant)
  local turn = whose_turn(lock)
  save(lock)
  return answer({ answer = text, next = turn })
end)
