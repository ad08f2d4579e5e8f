-- needs: status, texts
-- Looking at what is written, whatever it is. A rule has one or more looks, each with: where it looks (`over`), what is
-- wrong with one subject (`finds`: a sentence, or nothing; then, where only a person can repair it, why), and
-- how it is repaired (`repairs`). A look at keys that no list leads to says what they begin with (`front`).
--
-- Every call has: the invariant, and how late is not late yet; for keys that no list leads to, their names and front.
local grace = call.grace
local gone_instances = {}
for _, instance in ipairs(header.gone_instances or {}) do
  gone_instances[instance] = true
end
local rules = {}

-- Of the documents that the answer holds.
local answered_bytes = 0

-- The reply of a command: false if nothing is there, nil if what is there is of another kind. That is reported once, as
-- a damaged row.
local function look(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    return nil
  end
  return reply
end

-- A document, wherever it stands.
local function look_at_text(text, kind, id)
  return text == '' and look('GET', text_key(kind, id)) or text
end

-- Members of a list in the order of their bytes, after one of them: they, and where the next page begins.
local function over_ordered(name)
  return function(after, limit)
    local from = after == '' and '-' or '(' .. after
    local members = look('ZRANGE', key(name), from, '+', 'BYLEX', 'LIMIT', 0, limit) or {}
    return members, #members == limit and members[limit] or nil
  end
end

-- What SSCAN, HSCAN and ZSCAN tell, every `step`-th of it, and where the next page begins.
local function scanned(command, name, after, limit, step)
  local reply = look(command, name, after == '' and '0' or after, 'COUNT', limit)
  if not reply then
    return {}, nil
  end
  local members = {}
  for index = 1, #reply[2], step do
    members[#members + 1] = reply[2][index]
  end
  return members, reply[1] ~= '0' and reply[1] or nil
end

local function over_scored(name)
  return function(after, limit)
    return scanned('ZSCAN', key(name), after, limit, 2)
  end
end

local function over_set(name)
  return function(after, limit)
    return scanned('SSCAN', key(name), after, limit, 1)
  end
end

-- What each run has of something: `pick` turns the run, and a place in what it has, into subjects and the next place.
local function over_runs(pick)
  return function(after, limit)
    local run, place = string.match(after, '^(%S*) ?(%S*)$')
    local subjects, looked_at = {}, 0
    while looked_at < limit and answered_bytes <= answer_bytes_max do
      if place == '' then
        local from = run == '' and '-' or '(' .. run
        run = (look('ZRANGE', key('wf:runs'), from, '+', 'BYLEX', 'LIMIT', 0, 1) or {})[1]
        if not run then
          return subjects, nil
        end
      end
      local some, next_place = pick(run, place, limit)
      for _, subject in ipairs(some) do
        subjects[#subjects + 1] = subject
      end
      looked_at, place = looked_at + #some + 1, next_place or ''
    end
    return subjects, place == '' and run or run .. ' ' .. place
  end
end

-- Keys of the tenant that no list leads to, by the names behind the tenant's tag: the caller has come by them, and says
-- what they begin with.
local function over_unlisted()
  return call.names, nil
end

-- 'live', 'ended' or 'gone'. Nothing for a run that cannot be read.
local function state_of_run(run)
  local found = look('HMGET', key('wf:run', run), 'status', 'version')
  if not found then
    return nil
  end
  if not found[1] then
    return not found[2] and 'gone' or nil
  end
  return final[found[1]] and 'ended' or 'live'
end

local function is_scored(name, member)
  return look('ZSCORE', key(name), member)
end

-- The cursor of the next page: the number of a look, and the place in it.
local function page_after(looks, index, next_place)
  if next_place then
    return integer(index) .. ' ' .. next_place
  end
  return looks[index + 1] and integer(index + 1) .. ' ' or nil
end
