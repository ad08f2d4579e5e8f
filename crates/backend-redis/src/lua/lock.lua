-- A held lock with the first of its line.
local line_shown_max = number()
return decide(function(lock)
  local holders = live_holders(lock)
  if #holders == 0 then
    return { 'missing' }
  end
  return { 'ok', holders, waiting_for(lock), live_line(lock, line_shown_max) }
end)
