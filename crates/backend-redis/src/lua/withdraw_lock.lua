-- needs: locks
-- Removes what a call leaves behind when its caller has disconnected: its place in the queue, unless another call of
-- the same request waits there, too; and the lease that it was granted, unless another call was answered with it.
local asked, token = call.request, call.call
return decide(function(lock)
  purge(lock)
  leave_by(lock, asked, token)
  local grant = granted_to(lock, asked)
  if grant and grant.token == token and grant.call == token then
    end_hold(lock, grant, now, '{"cause":"withdrawn"}')
  end
  local turn = whose_turn(lock)
  save(lock)
  return answer({ answer = {}, next = turn })
end)
