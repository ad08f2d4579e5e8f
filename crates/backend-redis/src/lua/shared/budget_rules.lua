-- needs: order, ledger, budgets, inspection
-- What must be true of budgets: the ledger adds up, open permits expire or belong to an open job, and permits have a budget.
local function names_of(keys, after)
  local names = {}
  table.sort(keys, precedes)
  for _, name in ipairs(keys) do
    if precedes(after, name) then
      names[#names + 1] = name
    end
  end
  return names
end

local function over_budgets(after)
  return names_of(look('HKEYS', budgets) or {}, after), nil
end

-- A row, if it can be read.
local function known_row(hash, field)
  local is_read, row = pcall(read_row, hash, field)
  return is_read and type(row) == 'table' and row or nil
end

-- Everything of a hash that can be read; nothing if something cannot.
local function all_rows(hash)
  local found, rows = look('HGETALL', hash), {}
  for index = 1, #(found or {}), 2 do
    local is_read, row = pcall(cmsgpack.unpack, found[index + 1])
    if not is_read or type(row) ~= 'table' then
      return nil
    end
    rows[found[index]] = row
  end
  return found and rows
end

local counted_fields = { 'spent', 'reserved', 'unsettled', 'overdraft', 'open', 'ended' }
local total_fields = { 'spent', 'reserved', 'unsettled', 'overdraft', 'open', 'ended', 'past_spent', 'past_unsettled',
  'past_overdraft', 'adjusted', 'groups' }

local function without_permits(ledger)
  local row = copied(ledger)
  row.spent, row.unsettled, row.overdraft = row.past_spent, row.past_unsettled, row.past_overdraft
  row.reserved, row.open, row.ended = 0, 0, 0
  return row
end

-- The ledgers and the counts of a budget, counted anew.
local function counted(written, permits)
  local ledgers, totals, counts = {}, {}, { open = 0, ended = 0, groups = 0 }
  for place, ledger in pairs(written) do
    if total_place(place) ~= place then
      ledgers[place] = without_permits(ledger)
    end
  end
  for _, permit in pairs(permits) do
    local place = place_of_permit(permit)
    ledgers[place] = ledgers[place] or new_ledger(permit.window['until'])
    change_by_permit(ledgers[place], permit, plus)
    local field = permit.state == 'open' and 'open' or 'ended'
    counts[field] = counts[field] + 1
  end
  for place, ledger in pairs(ledgers) do
    counts.groups = counts.groups + 1
    local total = total_place(place)
    totals[total] = totals[total] or new_ledger()
    join_total(totals[total], ledger)
  end
  return ledgers, totals, counts
end

local function differs(one, other, fields)
  for _, field in ipairs(fields) do
    if not one or one[field] ~= other[field] then
      return true
    end
  end
  return false
end

-- What of a budget is wrong: its rows as they should be, and places that should not be there.
local function wrong_counters(name)
  local budget = known_row(budgets, name)
  local written, permits = all_rows(key('wf:budget:ledgers', name)), all_rows(key('wf:budget:permits', name))
  if not budget or not written or not permits then
    return nil
  end
  local ledgers, totals, counts = counted(written, permits)
  local wrong, extra, found = {}, {}, differs(budget, counts, { 'open', 'ended', 'groups' }) and 1 or 0
  for place, ledger in pairs(ledgers) do
    if differs(written[place], ledger, counted_fields) then
      wrong[place], found = ledger, found + 1
    end
  end
  for place, total in pairs(totals) do
    if differs(written[place], total, total_fields) then
      wrong[place], found = total, found + 1
    end
  end
  for place in pairs(written) do
    if not ledgers[place] and not totals[place] then
      extra[#extra + 1], found = place, found + 1
    end
  end
  return found, budget, counts, wrong, extra
end

rules.budget_drift = { {
  over = over_budgets,
  finds = function(name)
    local found = wrong_counters(name)
    return found and found > 0 and integer(found) .. ' counters of the budget are not the sum of its permits'
  end,
  repairs = function(name)
    local _, budget, counts, wrong, extra = wrong_counters(name)
    for place, ledger in pairs(wrong) do
      write_ledger(name, place, ledger)
      if total_place(place) ~= place then
        redis.call('ZADD', key('wf:budget:places', name), 0, place)
      end
    end
    for _, place in ipairs(extra) do
      redis.call('HDEL', key('wf:budget:ledgers', name), place)
    end
    budget.open, budget.ended, budget.groups = counts.open, counts.ended, counts.groups
    save_budget(budget)
  end,
} }

-- The permits of all budgets, each named by its budget, a slash and its id.
local function over_permits(after, limit)
  local last, place = string.match(after, '^(%S*) ?(%S*)$')
  local names = over_budgets('')
  for _, name in ipairs(names) do
    if name == last and place ~= '' or precedes(last, name) then
      local ids, next_place = scanned('HSCAN', key('wf:budget:permits', name), name == last and place or '', limit, 2)
      for index, id in ipairs(ids) do
        ids[index] = name .. '/' .. id
      end
      return ids, name .. ' ' .. (next_place or '')
    end
  end
  return {}, nil
end

rules.permit_not_due = { {
  over = over_permits,
  finds = function(subject)
    local name, id = string.match(subject, '^([^/]+)/(.+)$')
    local permit = name and known_row(budgets, name) and known_row(key('wf:budget:permits', name), id)
    if not permit or permit.state ~= 'open' or not permit.expires_at then
      return nil
    end
    local due_at = look('ZSCORE', key('wf:budget:due', name), 'p.' .. id)
    return due_at ~= nil and tonumber(due_at) ~= permit.expires_at and 'the permit is open and never expires'
  end,
  repairs = function(subject)
    local name, id = string.match(subject, '^([^/]+)/(.+)$')
    local budget = read_budget(name)
    make_due(budget, read_permit(budget, id).expires_at, 'p.' .. id)
    save_budget(budget)
  end,
} }

rules.permit_without_job = { {
  over = over_permits,
  finds = function(subject)
    local name, id = string.match(subject, '^([^/]+)/(.+)$')
    local permit = name and known_row(budgets, name) and known_row(key('wf:budget:permits', name), id)
    local job = permit and permit.state == 'open' and permit.job
    local found = job and look('HMGET', key('wf:job', job), 'created_at', 'end_cause', 'permit')
    return found and (not found[1] or found[2] or found[3] ~= id) and 'the permit is open, and its job is not'
  end,
  repairs = function(subject)
    local name, id = string.match(subject, '^([^/]+)/(.+)$')
    local budget = read_budget(name)
    end_permit(budget, read_permit(budget, id), 'unsettled')
    save_budget(budget)
  end,
} }

-- A budget is named by when the first thing of it is due for as long as it has permits.
rules.permit_without_budget = { {
  over = function(after)
    return names_of(look('ZRANGE', first_due, 0, -1) or {}, after), nil
  end,
  finds = function(name)
    local permits = look('HLEN', key('wf:budget:permits', name)) or 0
    return permits > 0 and look('HEXISTS', budgets, name) == 0
      and integer(permits) .. ' permits name a budget that does not exist'
  end,
  repairs = delete_parts,
} }
