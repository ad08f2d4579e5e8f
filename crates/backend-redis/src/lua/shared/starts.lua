-- Documents of starts. A large one has a key of its own, and its field in the row of the run is empty.

-- Takes a start as it came, with its time to be put in. Returns its field.
local function write_start(start, rows, at)
  if not rows.time_at then
    return at_time(rows.document, at)
  end
  local name = key('wf:start', start.run)
  redis.call('SET', name, start.large)
  redis.call('SETRANGE', name, rows.time_at, string.format('%15.0f', at))
  return ''
end

-- A start for an answer, and its bytes.
local function show_start(run, text)
  if text ~= '' then
    return text, #text
  end
  local name = key('wf:start', run)
  return text_at(name), redis.call('STRLEN', name)
end
