-- needs: failures, idempotency
-- Ends the reservation of a key for this very run: never one for another run, and never a key that has started a run.
return guarded(function()
  local place = key_name(call.workflow, call.key)
  local record = read_key(place)
  if not record or not record.reservation or record.run ~= call.run then
    return answer()
  end
  redis.call('DEL', place)
  -- One that has expired is none, though nothing has removed it yet.
  return answer(now < record.reservation['until'])
end)
