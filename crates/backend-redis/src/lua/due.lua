-- Where there is something to do now, for each tenant that is asked for: its ready runs, its first timer, its first lease.
local function first(name)
  return redis.call('ZRANGE', key(name), 0, 0, 'WITHSCORES')[2] or false
end

local found = {}
for index = 1, number() do
  tag = argument()
  found[index] = { integer(redis.call('ZCARD', key('wf:ready'))), first('wf:timers'), first('wf:leases') }
end
return { 'ok', integer(now), found }
