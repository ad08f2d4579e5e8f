-- needs: run_texts
-- Puts events behind the timeline, in as few commands as Lua's stack allows.
local function append_events(run, events)
  for from = 1, #events, 1000 do
    redis.call('RPUSH', key('wf:timeline', run), unpack(events, from, math.min(from + 999, #events)))
  end
end

-- Writes steps, in place of large ones if the run `has_texts`.
local function write_steps(run, steps, has_texts)
  local fields = {}
  for _, step in ipairs(steps) do
    fields[#fields + 1] = step.key
    fields[#fields + 1] = keep_text_of(run, step.document, 'step', run .. ':' .. step.key, has_texts)
  end
  for from = 1, #fields, 1000 do
    redis.call('HSET', key('wf:steps', run), unpack(fields, from, math.min(from + 999, #fields)))
  end
end
