-- needs: order, idempotency, inspection, job_rules, key_rules, budgets, budget_rules
-- What is written down can be read: here, that it is of its kind, and that what scripts go by is there. Whether a
-- document can be read is not known to Lua.
local by_hand = 'what it contained is unknown: it needs a decision by hand'

-- What is wrong with a key that should be of this kind, or not there at all.
local function is_odd(name, kind)
  local found = redis.call('TYPE', name).ok
  return found ~= kind and found ~= 'none' and 'a ' .. found .. ' stands where a ' .. kind .. ' should be', by_hand
end

local lists = { ['wf:tenant'] = 'hash', ['wf:runs'] = 'zset', ['wf:runs:active'] = 'set', ['wf:runs:deleted'] = 'set',
  ['wf:defs'] = 'zset',
  ['wf:ready'] = 'zset', ['wf:timers'] = 'zset', ['wf:jobs'] = 'zset', ['wf:leases'] = 'zset', ['wf:unclaimed'] = 'zset', ['wf:put_off'] = 'zset',
  ['wf:held'] = 'zset', ['wf:children'] = 'hash', ['wf:children:due'] = 'zset', ['wf:approvals:open'] = 'zset', ['wf:workers'] = 'zset', ['wf:dead_letters'] = 'hash',
  ['wf:dead_letters:index'] = 'zset', ['wf:locks:sweeps'] = 'zset', ['wf:locks:listed'] = 'zset',
  ['wf:locks:since'] = 'hash', ['wf:locks:waiting'] = 'hash', ['wf:budgets'] = 'hash', ['wf:budgets:due'] = 'zset' }

local function over_lists()
  local names = {}
  for name in pairs(lists) do
    names[#names + 1] = key(name)
  end
  table.sort(names, precedes)
  return names, nil
end

-- Rows that belong to one run, and the row itself.
local parts_of_run = { ['wf:start'] = 'string', ['wf:steps'] = 'hash', ['wf:inbox'] = 'list',
  ['wf:timeline'] = 'list', ['wf:run:jobs'] = 'set', ['wf:run:approvals'] = 'set', ['wf:run:children'] = 'set', ['wf:run:texts'] = 'zset' }

local function over_parts_of_runs(after, limit)
  local runs_of_page, next_page = over_ordered('wf:runs')(after, limit)
  local names = {}
  for _, run in ipairs(runs_of_page) do
    for name in pairs(parts_of_run) do
      names[#names + 1] = key(name, run)
    end
  end
  table.sort(names, precedes)
  return names, next_page
end

local function named(over, name)
  return function(after, limit)
    local members, next_page = over(after, limit)
    for index, member in ipairs(members) do
      members[index] = key(name, member)
    end
    return members, next_page
  end
end

-- A row that others name, with the fields that scripts go by.
local function whole_row(name, fields)
  local odd = is_odd(name, 'hash')
  if odd then
    return odd, by_hand
  end
  local found = redis.call('HMGET', name, unpack(fields))
  for index, field in ipairs(fields) do
    if not found[index] then
      return 'a list names this row, and its ' .. field .. ' is not there', by_hand
    end
  end
end

local function is_number(name, field)
  local text = redis.call('HGET', name, field)
  return text == false or tonumber(text) ~= nil
end

-- The workflows that are listed, and the current version of each.
local function over_definitions(after, limit)
  local listed, next_page = over_ordered('wf:defs')(after, limit)
  local names = {}
  for _, entry in ipairs(listed) do
    local id = string.match(entry, '^%d+/(.+)$') or entry
    names[#names + 1] = key('wf:def', id)
    local version = look('HGET', key('wf:def', id), 'current')
    if version then
      names[#names + 1] = key('wf:def', id .. ':' .. version)
    end
  end
  return names, next_page
end

rules.row_damaged = { {
  over = over_lists,
  finds = function(name)
    for list, kind in pairs(lists) do
      if key(list) == name then
        return is_odd(name, kind)
      end
    end
  end,
}, {
  over = named(over_ordered('wf:runs'), 'wf:run'),
  finds = function(name)
    local detail = whole_row(name, { 'start', 'head', 'status', 'version', 'fence' })
    if detail then
      return detail, by_hand
    end
    local run = string.sub(name, #key('wf:run', '') + 1)
    if redis.call('HGET', name, 'start') == '' and redis.call('EXISTS', key('wf:start', run)) == 0 then
      return 'its large start is not there', by_hand
    end
    for _, text in ipairs(look('ZRANGE', key('wf:run:texts', run), 0, limits.looked_at_max - 1) or {}) do
      if redis.call('EXISTS', key('wf:text', text)) == 0 then
        return 'its large document ' .. text .. ' is not there', by_hand
      end
    end
    for _, field in ipairs({ 'version', 'fence', 'due_at', 'lease' }) do
      if not is_number(name, field) then
        return 'the ' .. field .. ' of the run is no number', by_hand
      end
    end
  end,
}, {
  over = over_definitions,
  finds = function(name)
    local is_version = string.find(string.sub(name, #key('wf:def', '') + 1), ':', 1, true)
    return whole_row(name, is_version and { 'document', 'created_at' } or { 'version', 'saved_at' })
  end,
}, {
  front = 'wf:queue',
  over = named(over_unlisted, 'wf:queue'),
  finds = function(name)
    return is_odd(name, 'zset')
  end,
}, {
  over = over_parts_of_runs,
  finds = function(name)
    for part, kind in pairs(parts_of_run) do
      local front = key(part, '')
      if string.sub(name, 1, #front) == front then
        return is_odd(name, kind)
      end
    end
  end,
}, {
  over = named(over_jobs, 'wf:job'),
  finds = function(name)
    local detail = whole_row(name, { 'job', 'created_at', 'topic' })
    if detail then
      return detail, by_hand
    end
    for _, field in ipairs({ 'created_at', 'fence', 'expires_at', 'ttl', 'end_held', 'end_fence' }) do
      if not is_number(name, field) then
        return 'the ' .. field .. ' of the job is no number', by_hand
      end
    end
  end,
}, {
  over = named(over_runs(function(run, place, limit)
    return scanned('SSCAN', key('wf:run:approvals', run), place, limit, 1)
  end), 'wf:approval'),
  finds = function(name)
    return whole_row(name, { 'approval', 'state', 'verdict' })
  end,
}, {
  over = function(after)
    local names = over_budgets(after)
    for index, name in ipairs(names) do
      names[index] = budgets .. '/' .. name
    end
    return names, nil
  end,
  finds = function(subject)
    local name = string.sub(subject, #budgets + 2)
    return string.sub(subject, 1, #budgets + 1) == budgets .. '/' and look('HEXISTS', budgets, name) == 1
      and not known_row(budgets, name) and 'the row of the budget cannot be read', by_hand
  end,
}, {
  front = 'wf:run:idempotency',
  over = named(over_unlisted, 'wf:run:idempotency'),
  finds = function(name)
    local is_read = pcall(read_key, name)
    return not is_read and 'what stands for the idempotency key is not ours', by_hand
  end,
} }
