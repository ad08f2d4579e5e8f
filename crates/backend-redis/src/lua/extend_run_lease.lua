-- needs: held_lease
-- Extends the lease on a run.
local lock, refusal = held_lease()
if not lock then
  return refusal
end
write_lock(call.run, lock, call.lease)
return answer()
