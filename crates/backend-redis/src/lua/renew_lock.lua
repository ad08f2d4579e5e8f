-- Extends a hold from now on. One that has run out cannot be revived.
local token, ttl = argument(), number()
return decide(function(lock)
  local grant = live_grant(lock, token)
  if not grant then
    return refusal(lock, token)
  end
  purge(lock)
  grant.expires_at = now + ttl
  local text = write_grant(lock, grant)
  local turn = whose_turn(lock)
  save(lock)
  return { 'ok', turn, text }
end)
