-- Reserves an idempotency key for a run that its caller means to create under the tenant's admission lock.
local runs_max, workflow, name = argument(), argument(), argument()
local fingerprint, run, fence, lease = argument(), argument(), number(), number()

local function reserve()
  local place = key_name(workflow, name)
  local record = live_key(place)
  if record and not record.reservation then
    return { 'ok', by_started(record, fingerprint, read_gate(runs_max)) }
  end
  local current, is_held = admission_lock(fence)
  if not is_held then
    return { 'fenced', integer(current) }
  end
  if record and record.reservation.fence > fence then
    return { 'fenced', integer(record.reservation.fence) }
  end
  write_key_record(place, '{"run":"' .. run .. '","fingerprint":"' .. fingerprint .. '","reservation":{"fence":'
    .. integer(fence) .. ',"until":' .. integer(now + lease) .. '}}', lease)
  return { 'ok', { 'reserved' } }
end

return guarded(reserve)
