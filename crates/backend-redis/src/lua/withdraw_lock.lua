-- Takes a request out of the line, and ends its hold if nobody heard of it: only for the call that was last told of it.
local asked, call = argument(), argument()
return decide(function(lock)
  purge(lock)
  local waiter = read_waiter(lock, asked)
  if waiter and waiter.call == call then
    leave(lock, asked)
  end
  local grant = granted_to(lock, asked)
  if grant and grant.call == call then
    end_hold(lock, grant, now, '{"cause":"withdrawn"}')
  end
  local turn = whose_turn(lock)
  save(lock)
  return { 'ok', turn }
end)
