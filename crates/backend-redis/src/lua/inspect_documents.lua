-- needs: inspection, inbox, texts
-- A page of all documents, for a caller that can read them.
local number_of_look, place = string.match(call.page.after or '', '^(%d+) (.*)$')
local index = tonumber(number_of_look or '1')

local function add(documents, kind, name, text)
  if text then
    answered_bytes = answered_bytes + #text
    documents[#documents + 1] = { kind = kind, name = name, text = text }
  end
end

-- A few of what a run has, by the command that goes through it.
local function some(command, part, add_some)
  return over_runs(function(run, from)
    local reply = look(command, key(part, run), from == '' and '0' or from, 'COUNT', 10)
    local documents = {}
    if reply then
      add_some(documents, run, reply[2])
    end
    return documents, reply and reply[1] ~= '0' and reply[1] or nil
  end)
end

-- The document of each row that a run names.
local function rows(part, name, kind)
  return some('SSCAN', part, function(documents, _, ids)
    for _, id in ipairs(ids) do
      add(documents, kind, key(name, id), look_at_text(look('HGET', key(name, id), kind), kind, id))
    end
  end)
end

local looks = {
  over_runs(function(run)
    local documents, name = {}, key('wf:run', run)
    local found = look('HMGET', name, 'start', 'head') or {}
    local start = found[1]
    if start == '' then
      start = look('GET', key('wf:start', run))
    end
    add(documents, 'start', name, start)
    add(documents, 'head', name, look_at_text(found[2], 'head', run))
    return documents, nil
  end),
  some('HSCAN', 'wf:steps', function(documents, run, found)
    for position = 1, #found, 2 do
      local step = look_at_text(found[position + 1], 'step', run .. ':' .. found[position])
      add(documents, 'step', key('wf:steps', run) .. '/' .. found[position], step)
    end
  end),
  over_runs(function(run, from)
    local documents, first = {}, tonumber(from == '' and '0' or from)
    for _, event in ipairs(look('LRANGE', key('wf:inbox', run), integer(first), integer(first + 9)) or {}) do
      local of = outcome_after(event)
      local outcome = of and look('GET', text_key('outcome', of))
      add(documents, 'event', key('wf:inbox', run), outcome and event .. outcome .. '}}' or event)
    end
    return documents, #documents == 10 and integer(first + 10) or nil
  end),
  rows('wf:run:jobs', 'wf:job', 'job'),
  rows('wf:run:approvals', 'wf:approval', 'approval'),
}

local documents, next_place = looks[index](place or '', call.page.limit)
return answer({ next = page_after(looks, index, next_place), items = documents })
