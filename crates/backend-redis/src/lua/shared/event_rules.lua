-- needs: events, inspection
-- What must be true of the steps that wait for what is sent to a key (`<run>/<step>`), and of their index.
--
-- The name and the key that a step waits for, or nothing.
local function awaited_place(document)
  -- Most steps wait for none: the text alone tells.
  if not document or not string.find(document, '"awaits":{', 1, true) then
    return nil
  end
  local awaits = cjson.decode(document).awaits
  if not awaits or not awaits.key then
    return nil
  end
  return awaits.name .. '/' .. string.gsub(awaits.key, '[^%w%-_.]', function(byte)
    return string.format('%%%02X', string.byte(byte))
  end)
end

local function place_of(run, step)
  if state_of_run(run) ~= 'live' then
    return nil
  end
  local is_read, place = pcall(awaited_place, look('HGET', key('wf:steps', run), step))
  return is_read and place or nil
end

local over_awaiting = over_runs(function(run, place, limit)
  if state_of_run(run) ~= 'live' then
    return {}, nil
  end
  local reply = look('HSCAN', key('wf:steps', run), place == '' and '0' or place, 'COUNT', limit)
  if not reply then
    return {}, nil
  end
  local found = {}
  for index = 1, #reply[2], 2 do
    local is_read, awaited = pcall(awaited_place, reply[2][index + 1])
    if is_read and awaited then
      found[#found + 1] = run .. '/' .. reply[2][index]
    end
  end
  return found, reply[1] ~= '0' and reply[1] or nil
end)

rules.event_waiter_not_indexed = { {
  over = over_awaiting,
  finds = function(subject)
    local run, step = string.match(subject, '^([^/]+)/([^/]+)$')
    local place = run and place_of(run, step)
    return place and is_scored('wf:events:waiting', place .. '/' .. subject) == false
      and 'the step waits for a key and is in no index'
  end,
  repairs = function(subject)
    local run, step = string.match(subject, '^([^/]+)/([^/]+)$')
    local member = place_of(run, step) .. '/' .. subject
    redis.call('ZADD', key('wf:events:waiting'), 0, member)
    redis.call('SADD', key('wf:run:waits', run), member)
  end,
} }

rules.event_waiter_without_step = { {
  over = over_ordered('wf:events:waiting'),
  finds = function(member)
    local place, run, step = string.match(member, '^([^/]+/[^/]+)/([^/]+)/([^/]+)$')
    if not run or not is_scored('wf:events:waiting', member) or not state_of_run(run) then
      return nil
    end
    return place_of(run, step) ~= place and 'the index says that a step waits for a key, and it does not'
  end,
  repairs = function(member)
    end_wait(string.match(member, '^[^/]+/[^/]+/([^/]+)'), member)
  end,
} }
