-- How many bytes a turn of the tenant's runs may render, and a run may hold. The system's come with the call.
local known_bounds
local function run_bounds()
  if not known_bounds then
    local own_turn, own_run = unpack(redis.call('HMGET', key('wf:tenant'), 'turn_bytes_max', 'run_bytes_max'))
    known_bounds = {
      turn_bytes_max = tonumber(own_turn or header.turn_bytes_max or limits.turn_bytes_default),
      run_bytes_max = tonumber(own_run or header.run_bytes_max or limits.run_bytes_default),
    }
  end
  return known_bounds
end
