-- Puts as many arguments as the next one says behind the timeline, in as few commands as Lua's stack allows.
local function append_events(run, events)
  for _ = 1, number() do
    events[#events + 1] = argument()
    if #events == 1000 then
      redis.call('RPUSH', key('wf:timeline', run), unpack(events))
      events = {}
    end
  end
  if #events > 0 then
    redis.call('RPUSH', key('wf:timeline', run), unpack(events))
  end
end

-- The same for steps: name and document of each.
local function write_steps(run)
  local fields = {}
  for _ = 1, number() do
    fields[#fields + 1] = argument()
    fields[#fields + 1] = argument()
    if #fields == 1000 then
      redis.call('HSET', key('wf:steps', run), unpack(fields))
      fields = {}
    end
  end
  if #fields > 0 then
    redis.call('HSET', key('wf:steps', run), unpack(fields))
  end
end
