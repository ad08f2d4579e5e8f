-- needs: groups
-- What happens to a start: the one decision over all groups that it counts in, the narrowest first. The same as
-- `model::limit::judge`.

-- The groups that are full for a newcomer, and whether they stay so when the run that it replaces has ended.
local function full_groups(met)
  local full = {}
  for at, group in ipairs(met) do
    local reason, next_at = fullness_for_newcomer(group, group.live)
    if reason then
      local stays = fullness_for_newcomer(group, math.max(group.live - group.freed, 0)) ~= nil
      full[#full + 1] = { group = group, at = at, reason = reason, next_at = next_at, stays = stays }
    end
  end
  return full
end

-- The narrowest group whose limit debounces.
local function find_debounce(met)
  for at, group in ipairs(met) do
    if group.rule.quiet then
      return { group = group, at = at }
    end
  end
  return nil
end

local function is_queue_full(group)
  return group.queued >= group.rule.queued_max
end

local function wait_in(one)
  return is_queue_full(one.group) and 'queue_full' or 'queue', one
end

local function would_replace(group)
  return group.rule.on_full == 'replace_queued' or group.rule.on_full == 'replace_running'
end

-- The same for a child, by the groups that it counts in and no run above it does: it joins nothing and replaces nothing.
local function judge_child(full)
  for _, one in ipairs(full) do
    if one.group.rule.on_full == 'reject' then
      return 'limit_reached', one
    end
  end
  if not full[1] then
    return 'start'
  end
  return wait_in(full[1])
end

-- What is done, and the full group that decides. Without `can_join`, there is no run that could answer for the start: a limit
-- that would join rejects, and `debounces`, the group of one that debounces, has a new run wait.
local function judge(full, can_join, debounces)
  local replaces, rejects
  for _, one in ipairs(full) do
    local policy = one.group.rule.on_full
    -- Of two limits with a policy of their own, the narrower decides.
    local is_narrower = not debounces or one.at < debounces.at
    if policy == 'join' and can_join and is_narrower then
      return 'join', one
    end
    -- What a replacement frees counts as free, but for the group whose run is replaced.
    if one.stays and (policy == 'reject' or policy == 'join' and is_narrower) then
      rejects = rejects or one
    end
    if would_replace(one.group) and is_narrower then
      replaces = replaces or one
    end
  end
  if can_join and debounces and not replaces then
    return 'debounce', debounces
  end
  if rejects then
    return 'reject', rejects
  end
  if debounces and not replaces then
    -- In that queue it would stand if it had waited already.
    if full[1] and is_queue_full(full[1].group) then
      return 'queue_full', full[1]
    end
    return 'debounce', debounces
  end
  if not replaces then
    if full[1] then
      return wait_in(full[1])
    end
    return 'start'
  end
  if replaces.group.rule.on_full == 'replace_queued' then
    return is_queue_full(replaces.group) and 'replace_queued' or 'queue', replaces
  end
  for _, one in ipairs(full) do
    if one ~= replaces and one.stays then
      -- It could not start even if the other run had ended.
      return wait_in(one)
    end
  end
  if replaces.group.freed > 0 then
    return 'replace_running', replaces
  end
  return wait_in(replaces)
end
