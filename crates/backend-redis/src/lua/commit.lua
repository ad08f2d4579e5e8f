-- One turn of the engine, written in one step under its fence and version.
local run, fence, version = argument(), number(), number()
local hash = key('wf:run', run)
local before = redis.call('HMGET', hash, 'version', 'fence', 'status', 'due_at', 'inbox_base', 'lease')
if not before[1] then
  return { 'missing' }
end
-- Without a hold the last writer has let go: whoever comes with its fence again is late, too.
local current = tonumber(before[6] or before[2])
if is_repeat and tonumber(before[2]) == fence and tonumber(before[1]) == version + 1 then
  -- Fences are given once: this very turn was written, and only its answer was lost.
  return { 'ok', redis.call('EXISTS', key('wf:inbox', run)) == 1 and '1' or '0', before[1] }
end
if current ~= fence or tonumber(before[2]) >= fence or tonumber(before[1]) ~= version then
  return { 'fenced', integer(current) }
end

local head, status, due_at, inbox_end = argument(), argument(), argument(), number()
write_steps(run)
append_events(run, {})
for _ = 1, number() do
  dispatch(run)
end
for _ = 1, number() do
  hold(run)
end
for _ = 1, number() do
  end_job(argument(), 'revoked')
end
for _ = 1, number() do
  open_approval(run)
end
for _ = 1, number() do
  withdraw_approval(argument())
end
bury()

-- A run has at most one timer: the earliest of all that may happen to it by itself. It is written even if it has not
-- moved, because it may have ripened into the ready mark that this commit clears.
if due_at ~= '' then
  redis.call('ZADD', key('wf:timers'), due_at, run)
  redis.call('HSET', hash, 'due_at', due_at)
elseif before[4] then
  redis.call('ZREM', key('wf:timers'), run)
  redis.call('HDEL', hash, 'due_at')
end
if final[status] and not final[before[3]] then
  give_slot_back(run)
end

-- What the turn took into account leaves the inbox; what came since stays for the next.
local base = tonumber(before[5] or '0')
if inbox_end > base then
  redis.call('LTRIM', key('wf:inbox', run), inbox_end - base, -1)
end
local has_more = redis.call('EXISTS', key('wf:inbox', run)) == 1
if has_more then
  redis.call('HSET', hash, 'inbox_base', integer(math.max(inbox_end, base)))
else
  redis.call('HDEL', hash, 'inbox_base')
  redis.call('ZREM', key('wf:ready'), run)
end
redis.call('HSET', hash, 'head', head, 'status', status, 'version', integer(version + 1), 'fence', integer(fence))
redis.call('HDEL', hash, 'lease')
release_lock(run, fence)
return { 'ok', has_more and '1' or '0', integer(version + 1) }
