-- needs: texts
-- Documents of starts. A large one has a key of its own, and its field in the row of the run is empty.

-- Writes the document of a start as it came, with its time, for a run that may not be the one that it was made for. Returns
-- the field.
local function write_start(run, start, rows, at)
  local id_at = #'{"run":"'
  if rows.time_at then
    local name = key('wf:start', run)
    take_sent(rows.document, name)
    redis.call('SETRANGE', name, rows.time_at, string.format('%15.0f', at))
    redis.call('SETRANGE', name, id_at, run)
    return ''
  end
  local document = at_time(rows.document, at)
  if run ~= start.run then
    document = string.sub(document, 1, id_at) .. run .. string.sub(document, id_at + #run + 1)
  end
  return document
end

-- A start for an answer, and its bytes.
local function show_start(run, text)
  if text ~= '' then
    return text, #text
  end
  local name = key('wf:start', run)
  return text_at(name), redis.call('STRLEN', name)
end
