-- needs: idempotency, inspection
-- What must be true of idempotency keys, which are named by the workflow, a slash and the key.
local function over_idempotency()
  local subjects = {}
  for index, suffix in ipairs(call.names) do
    subjects[index] = string.gsub(suffix, ':', '/', 1)
  end
  return subjects, nil
end

local function place_of(subject)
  local workflow, name = string.match(subject, '^([^/]+)/(.*)$')
  return workflow and key_name(workflow, name)
end

-- The record of a key, if it says something now, or also if its time is over.
local function record_of(subject, read)
  local place = place_of(subject)
  return place and read(place)
end

local function free(subject)
  redis.call('DEL', place_of(subject))
end

-- Whether the run was made so long ago that the mark which tells of its deletion may be gone, too. Ids of runs begin
-- with when they were made.
local function is_old(run)
  local first, second = string.match(run, '^(%x%x%x%x%x%x%x%x)-(%x%x%x%x)-')
  return first and tonumber(first .. second, 16) < now - limits.keys_judged_for
end

rules.key_without_run = { {
  front = 'wf:run:idempotency',
  over = over_idempotency,
  finds = function(subject)
    local record = record_of(subject, live_key)
    return record and not record.reservation and not is_old(record.run) and state_of_run(record.run) == 'gone'
      and look('SISMEMBER', key('wf:runs:deleted'), record.run) == 0
      and 'the key stands for the run ' .. record.run .. ', which is not there and was not deleted'
  end,
  repairs = free,
} }

rules.reservation_left_behind = { {
  front = 'wf:run:idempotency',
  over = over_idempotency,
  finds = function(subject)
    local record = record_of(subject, read_key)
    return record and record.reservation and record.reservation['until'] + grace <= now
      and 'the key is reserved for the run ' .. record.run .. ', whose start is over'
  end,
  repairs = free,
} }
