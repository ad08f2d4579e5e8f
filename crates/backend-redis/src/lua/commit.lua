-- needs: status, run_lock, quarantine, slot_flow, jobs, append, run_texts, dead_letters
-- One turn of the engine, written in one step under its fence and version.

-- Made only where they are needed: Redis makes the functions of a script anew in each call.
local function load_slots()
  -- needs: slots
  return release_slots, grant_freed
end

-- The run has ended: its slots go to those that wait. Returns how many runs got theirs.
local function pass_slots_on(run, claims, waiting)
  if claims or waiting then
    return load_slots()(run, claims, waiting)
  end
  if not release_tenant_slot(run) then
    return 0
  end
  local _, grant_freed_slots = load_slots()
  return grant_freed_slots({ 'tenant-runs:' })
end

-- Most turns do nothing about children.
local function settle_children(run)
  -- needs: children
  for _, new in ipairs(call.children_started or {}) do
    want_child(run, new)
  end
  for _, child in ipairs(call.children_cancelled or {}) do
    give_up_child(run, child, call.cancel)
  end
  if call.report then
    report_child(call.report.parent, run, call.report.event, call.report.outcome)
  end
end

-- Most turns begin and end no wait for a key.
local function settle_waits(run)
  -- needs: events
  for _, member in ipairs(call.waits_ended or {}) do
    end_wait(run, member)
  end
  for _, waiter in ipairs(call.waits_begun or {}) do
    begin_wait(run, waiter.place, waiter.member)
  end
end

local run, fence, version = call.run, call.fence, call.version
local hash = key('wf:run', run)
local version_before, fence_before, status_before, due_before, inbox_base, lease, quarantined_at, claims, waiting,
  texts =
  unpack(redis.call('HMGET', hash, 'version', 'fence', 'status', 'due_at', 'inbox_base', 'lease', 'quarantined_at',
    'claims', 'waiting', 'texts'))
if not version_before then
  return missing()
end
-- Without a lease the last writer has released the run: a second writer with its fence is late, too.
local current = tonumber(lease or fence_before)
if is_repeat and tonumber(fence_before) == fence and tonumber(version_before) == version + 1 then
  -- A fence is given once: this very turn was written, and only its answer was lost.
  local has_inbox = redis.call('EXISTS', key('wf:inbox', run)) == 1
  return answer({ has_more = has_inbox or call.continues, version = version_before,
    granted = redis.call('HGET', hash, 'granted') or 0 })
end
if current ~= fence or tonumber(fence_before) >= fence or tonumber(version_before) ~= version then
  return fenced(current)
end

write_steps(run, call.steps, texts)
append_events(run, call.events)
for _, new in ipairs(call.dispatched) do
  dispatch(run, new)
end
for _, new in ipairs(call.held) do
  hold(run, new)
end
for _, job in ipairs(call.revoked) do
  end_job(job, 'revoked')
end
for _, new in ipairs(call.approvals_opened) do
  open_approval(run, new)
end
for _, job in ipairs(call.approvals_withdrawn) do
  withdraw_approval(job)
end
if call.children_started or call.children_cancelled or call.report then
  settle_children(run)
end
add_dead_letters(call.dead_letters, call.dead_letters_max)

-- A run has at most one timer: the earliest of all that may happen to it by itself. It is written even if it has not
-- moved, because it may have fired into the ready mark that this commit clears.
if call.due_at then
  redis.call('ZADD', key('wf:timers'), integer(call.due_at), run)
  redis.call('HSET', hash, 'due_at', integer(call.due_at))
elseif due_before then
  redis.call('ZREM', key('wf:timers'), run)
  redis.call('HDEL', hash, 'due_at')
end
if claims and (status_before == 'waiting') ~= (call.status == 'waiting') then
  -- Time with an open approval is not charged by fair queues.
  local found = read_fields(hash, 'fair', 'approvals_since', 'approvals_ms')
  if found.fair and call.status == 'waiting' then
    redis.call('HSET', hash, 'approvals_since', integer(now))
  elseif found.approvals_since then
    local waited = math.max(now - tonumber(found.approvals_since), 0)
    redis.call('HSET', hash, 'approvals_ms', integer(tonumber(found.approvals_ms or '0') + waited))
    redis.call('HDEL', hash, 'approvals_since')
  end
end
local released = 0
if final[call.status] and not final[status_before] then
  released = pass_slots_on(run, claims, waiting)
  if released > 0 then
    -- For a caller whose answer was lost, and who must still wake up the engine.
    redis.call('HSET', hash, 'granted', integer(released))
  end
end

-- What the turn took into account leaves the inbox; what came since stays for the next.
local base, inbox_end = tonumber(inbox_base or '0'), call.inbox_end
if inbox_end > base then
  redis.call('LTRIM', key('wf:inbox', run), inbox_end - base, -1)
  if texts then
    drop_texts_of(run, '(0', integer(inbox_end))
  end
end
if call.waits_begun or call.waits_ended then
  -- What was kept for a key comes into the drained inbox.
  settle_waits(run)
end
local has_inbox = redis.call('EXISTS', key('wf:inbox', run)) == 1
if has_inbox then
  redis.call('HSET', hash, 'inbox_base', integer(math.max(inbox_end, base)))
else
  redis.call('HDEL', hash, 'inbox_base')
end
if call.continues then
  redis.call('ZADD', key('wf:ready'), 0, run)
elseif not has_inbox then
  redis.call('ZREM', key('wf:ready'), run)
end
redis.call('HSET', hash, 'head', keep_text_of(run, call.head, 'head', run, texts), 'status', call.status, 'version', integer(version + 1),
  'fence', integer(fence))
if call.used_events then
  redis.call('HSET', hash, 'used_events', integer(call.used_events), 'used_event_bytes', integer(call.used_event_bytes))
end
redis.call('HDEL', hash, 'lease', 'tries')
if quarantined_at then
  redis.call('HDEL', hash, 'quarantined_at', 'cancel')
  remove_quarantine_letter(run)
end
release_lock(run, fence)
return answer({ has_more = has_inbox or call.continues, version = version + 1, granted = released })
