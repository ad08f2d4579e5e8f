-- A page of the documents that are kept, for whoever can read them: the kind of each, its key, and its text.
local after, limit = argument(), number()
local number_of_look, place = string.match(after, '^(%d+) (.*)$')
local index = tonumber(number_of_look or '1')

local function told(documents, kind, name, text)
  if text then
    told_bytes = told_bytes + #text
    documents[#documents + 1] = { kind, name, text }
  end
end

-- A few of what a run has, by the command that goes through it.
local function some(command, part, tell)
  return over_runs(function(run, from)
    local answer = look(command, key(part, run), from == '' and '0' or from, 'COUNT', 10)
    local documents = {}
    if answer then
      tell(documents, run, answer[2])
    end
    return documents, answer and answer[1] ~= '0' and answer[1] or nil
  end)
end

-- The document of each row that a run names.
local function rows(part, name, kind)
  return some('SSCAN', part, function(documents, _, ids)
    for _, id in ipairs(ids) do
      told(documents, kind, key(name, id), look('HGET', key(name, id), kind))
    end
  end)
end

local looks = {
  over_runs(function(run)
    local documents, name = {}, key('wf:run', run)
    local found = look('HMGET', name, 'start', 'head') or {}
    told(documents, 'start', name, found[1])
    told(documents, 'head', name, found[2])
    return documents, nil
  end),
  some('HSCAN', 'wf:steps', function(documents, run, found)
    for position = 1, #found, 2 do
      told(documents, 'step', key('wf:steps', run) .. '/' .. found[position], found[position + 1])
    end
  end),
  over_runs(function(run, from)
    local documents, first = {}, tonumber(from == '' and '0' or from)
    for _, event in ipairs(look('LRANGE', key('wf:inbox', run), integer(first), integer(first + 9)) or {}) do
      told(documents, 'event', key('wf:inbox', run), event)
    end
    return documents, #documents == 10 and integer(first + 10) or nil
  end),
  rows('wf:run:jobs', 'wf:job', 'job'),
  rows('wf:run:approvals', 'wf:approval', 'approval'),
}

local documents, next_place = looks[index](place or '', limit)
local next_page = false
if next_place then
  next_page = integer(index) .. ' ' .. next_place
elseif looks[index + 1] then
  next_page = integer(index + 1) .. ' '
end
return { 'ok', next_page, documents }
