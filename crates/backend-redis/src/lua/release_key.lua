-- Ends the reservation of a key for this very run: never another's, and never a key that has started a run.
local workflow, name, run = argument(), argument(), argument()
return guarded(function()
  local place = key_name(workflow, name)
  local record = read_key(place)
  if not record or not record.reservation or record.run ~= run then
    return { 'ok', '0' }
  end
  redis.call('DEL', place)
  return { 'ok', '1' }
end)
