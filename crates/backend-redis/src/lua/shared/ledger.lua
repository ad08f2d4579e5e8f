-- The arithmetic of a ledger, as the model has it. Amounts are integers below 2^53, and sums stop at the largest amount.
local amount_max = limits.amount_max

local function plus(one, other)
  return math.min(one + other, amount_max)
end

local function minus(one, other)
  return math.max(one - other, 0)
end

-- A change of an amount stops at the largest, up and down.
local function plus_delta(one, other)
  return math.max(math.min(one + other, amount_max), -amount_max)
end

local function new_ledger(ends_at)
  return { spent = 0, reserved = 0, unsettled = 0, overdraft = 0, adjusted = 0, open = 0, ended = 0, past_spent = 0,
    past_unsettled = 0, past_overdraft = 0, warned = 0, groups = 0, ends_at = ends_at }
end

local function overdraft_of(permit)
  return minus(permit.settled, permit.granted)
end

-- Changes a ledger by what a permit that is kept counts for: `plus` adds it, `minus` takes it away.
local function change_by_permit(ledger, permit, change)
  if permit.state == 'open' then
    ledger.open = change(ledger.open, 1)
    ledger.reserved = change(ledger.reserved, permit.granted)
    return
  end
  ledger.ended = change(ledger.ended, 1)
  if permit.state == 'unsettled' then
    ledger.unsettled = change(ledger.unsettled, permit.granted)
  elseif permit.state == 'settled' then
    ledger.spent = change(ledger.spent, permit.settled)
    ledger.overdraft = change(ledger.overdraft, overdraft_of(permit))
  end
end

-- A permit that has ended is no longer remembered; what it counts for stays.
local function forget_permit(ledger, permit)
  ledger.ended = minus(ledger.ended, 1)
  if permit.state == 'unsettled' then
    ledger.past_unsettled = plus(ledger.past_unsettled, permit.granted)
  elseif permit.state == 'settled' then
    ledger.past_spent = plus(ledger.past_spent, permit.settled)
    ledger.past_overdraft = plus(ledger.past_overdraft, overdraft_of(permit))
  end
end

local summed = { 'spent', 'reserved', 'unsettled', 'overdraft', 'past_spent', 'past_unsettled', 'past_overdraft' }

-- Takes a group into the total of its window.
local function join_total(total, ledger)
  for _, field in ipairs(summed) do
    total[field] = plus(total[field], ledger[field])
  end
  total.open, total.ended = total.open + ledger.open, total.ended + ledger.ended
  total.adjusted, total.groups = plus_delta(total.adjusted, ledger.adjusted), total.groups + 1
end

-- And out of it.
local function leave_total(total, ledger)
  for _, field in ipairs(summed) do
    total[field] = minus(total[field], ledger[field])
  end
  total.open, total.ended = minus(total.open, ledger.open), minus(total.ended, ledger.ended)
  total.adjusted, total.groups = plus_delta(total.adjusted, -ledger.adjusted), minus(total.groups, 1)
end

-- An amount as people write it.
local function amount_text(amount)
  local part = math.fmod(amount, 1000000)
  local whole = integer((amount - part) / 1000000)
  if part == 0 then
    return whole
  end
  local digits = string.gsub(string.format('%06.0f', part), '0+$', '')
  return whole .. '.' .. digits
end
