-- Where there is something to do now, for each tenant that is asked for: its ready runs, its first timer,
-- its first lease, its first result that was put off, its first held job.
-- A tenant whose data is damaged has nothing to do, and does not keep the others from theirs.
local function first(name)
  local found = redis.pcall('ZRANGE', key(name), 0, 0, 'WITHSCORES')
  return not found.err and found[2] or false
end

local function ready()
  local count = redis.pcall('ZCARD', key('wf:ready'))
  return type(count) == 'number' and count or 0
end

local found = {}
for index = 1, number() do
  tag = argument()
  found[index] = { integer(ready()), first('wf:timers'), first('wf:leases'), first('wf:put_off'), first('wf:held') }
end
return { 'ok', integer(now), found }
