-- needs: failures, usage, idempotency, admission_lock
-- Reserves an idempotency key for a run that its caller means to create under the tenant's admission lock.
return guarded(function()
  local place = key_name(call.workflow, call.intent.key)
  local record = live_key(place)
  if record and not record.reservation then
    return answer(by_started(record, call.intent.fingerprint, read_usage().usage))
  end
  local current, is_held = admission_lock(call.fence)
  if not is_held then
    return fenced(current)
  end
  if record and record.reservation.fence > call.fence then
    return fenced(record.reservation.fence)
  end
  write_key_record(place, '{"run":"' .. call.run .. '","fingerprint":"' .. call.intent.fingerprint
    .. '","reservation":{"fence":' .. integer(call.fence) .. ',"until":' .. integer(now + call.lease) .. '}}',
    call.lease)
  return answer({ outcome = 'granted' })
end)
