-- What a call leaves behind when whoever made it has gone: its place in line, unless another call of the same request
-- looks for it, too; and the hold that it was granted, unless another call was told of that.
local asked, call = argument(), argument()
return decide(function(lock)
  purge(lock)
  leave_by(lock, asked, call)
  local grant = granted_to(lock, asked)
  if grant and grant.token == call and grant.call == call then
    end_hold(lock, grant, now, '{"cause":"withdrawn"}')
  end
  local turn = whose_turn(lock)
  save(lock)
  return { 'ok', turn }
end)
