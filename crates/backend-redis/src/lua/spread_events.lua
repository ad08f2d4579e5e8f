-- needs: events
-- Delivers what is due of events that were sent to keys, and forgets those whose time is over.
local due = key('wf:events:due')
local events = redis.call('ZRANGEBYSCORE', due, '-inf', integer(now), 'LIMIT', 0, call.limit + 1)
local runs, forgotten, has_more = 0, 0, #events > call.limit
for index = 1, math.min(#events, call.limit) do
  local event = events[index]
  local hash = key('wf:event', event)
  local found = read_fields(hash, 'after', 'place', 'text', 'bytes', 'sent_at', 'forgotten_at')
  if found.after then
    local delivered, after = spread(found.place, found.after, found.text, tonumber(found.bytes))
    runs = delivered
    if after then
      redis.call('HSET', hash, 'after', after)
      redis.call('ZADD', due, integer(now), event)
    else
      forget_text(event)
      redis.call('ZADD', due, found.forgotten_at, event)
    end
    -- One that is spread is enough for one step.
    if runs > 0 then
      has_more = true
      break
    end
  else
    if found.text then
      keep_bytes(-tonumber(found.bytes))
      redis.call('ZREM', key('wf:events:kept'),
        found.place .. '/' .. sortable(tonumber(found.sent_at)) .. '/' .. event)
    end
    redis.call('UNLINK', hash)
    redis.call('ZREM', due, event)
    forgotten = forgotten + 1
  end
end
return answer({ runs = runs, forgotten = forgotten, has_more = has_more })
