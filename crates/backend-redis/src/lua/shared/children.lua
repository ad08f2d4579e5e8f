-- needs: status, inbox, cancels, texts
-- Children: runs that steps of other runs start and wait for. `wf:run:children` has those that steps of a run wait for,
-- `wf:children` what is to be started, and `wf:children:due` when that is looked at. The field `parent` of a run is the run
-- that waits for it: such a run runs in the slot of its root.
local function want_child(parent, new)
  redis.call('SADD', key('wf:run:children', parent), new.run)
  redis.call('HSET', key('wf:children'), new.run, (keep_text(new.document, 'child', new.run)))
  redis.call('ZADD', key('wf:children:due'), integer(now), new.run)
end

-- Ends the wait for the start of a child. Whether it had not started.
local function forget_child_start(child)
  redis.call('ZREM', key('wf:children:due'), child)
  drop_text('child', child)
  return redis.call('HDEL', key('wf:children'), child) == 1
end

-- The step that waited for a child continues without it: it is not started, or cancelled.
local function give_up_child(parent, child, event)
  redis.call('SREM', key('wf:run:children', parent), child)
  if forget_child_start(child) then
    return
  end
  local found = read_fields(key('wf:run', child), 'status', 'quarantined_at')
  if found.status and not final[found.status] then
    request_cancel(child, event, found.quarantined_at)
  end
end

-- Posts the end of a child to the run that waits for it. Nothing if that does not.
local function report_child(parent, child, event, large_outcome)
  if redis.call('SREM', key('wf:run:children', parent), child) == 1 then
    keep_text(large_outcome, 'outcome', child)
    post(parent, event)
  end
end
