-- needs: inbox, groups, places, judge
-- Newcomers that join a run, or take the place of one.

-- The live run that a newcomer would replace, if the narrowest full limit that replaces is one that replaces live runs.
-- What it frees in the groups is known from then on.
local function find_victim(met)
  local at
  for _, group in ipairs(met) do
    if group.rule.quiet or would_replace(group) and fullness_for_newcomer(group, group.live) then
      at = group
      break
    end
  end
  if not at or at.rule.on_full ~= 'replace_running' or at.rule.is_paused or (at.rule.runs_max or 0) == 0
    or at.live < at.rule.runs_max then
    return nil
  end
  local victim = redis.call('ZRANGE', key('wf:limit:live', at.claim), 0, 0)[1]
  if not victim then
    return nil
  end
  local held = { [tenant_runs] = true }
  for _, claim in ipairs(claims_in(redis.call('HGET', key('wf:run', victim), 'claims'))) do
    held[claim] = true
  end
  for _, group in ipairs(met) do
    group.freed = held[group.claim] and 1 or 0
  end
  return victim
end

-- The oldest run of the workflow that is live in the group, or waits in its queue. A bounded number is looked at.
local function run_to_join(claim, workflow)
  local function is_of_workflow(run)
    return redis.call('HGET', key('wf:run', run), 'workflow') == workflow
  end
  for _, run in ipairs(redis.call('ZRANGE', key('wf:limit:live', claim), 0, limits.joined_among_max - 1)) do
    if is_of_workflow(run) then
      return run
    end
  end
  for _, member in ipairs(redis.call('ZRANGE', key('wf:limit:queue', claim), 0, limits.joined_among_max - 1)) do
    if is_of_workflow(run_at(member)) then
      return run_at(member)
    end
  end
  return nil
end

local function post_replaced(run, by, claim)
  post(run, '{"replaced":{"by":"' .. by .. '","limit":"' .. limit_of(claim) .. '"}}')
end

-- Takes a run out of its queue for a newcomer. It ends with its next turn.
local function supersede(run, by, claim)
  -- First what may fail: then it keeps its place.
  post_replaced(run, by, claim)
  local place = read_place(redis.call('HGET', key('wf:run', run), 'waiting'))
  if place then
    leave_queue(run, place)
  end
end

-- Takes the last of a queue out of it.
local function supersede_last(last, by, claim)
  if last then
    supersede(run_at(last), by, claim)
  end
end

-- The newcomer waits first in the queue. The live run that it replaces is cancelled: unless the newcomer takes the place
-- of another one that waits for that.
local function replace_running(newcomer, place, group, victim)
  local pending = group.replacing
  enter_queue(newcomer, place, group.claim, 0)
  if pending then
    supersede(pending, newcomer, group.claim)
  else
    post_replaced(victim, newcomer, group.claim)
  end
  set_replacing(group, newcomer)
end
