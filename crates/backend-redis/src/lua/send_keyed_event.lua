-- needs: events
-- Sends an event to every run that waits for its key, or keeps it for the next that will.
local event = call.event
local hash, due = key('wf:event', event.id), key('wf:events:due')
local before = redis.call('HGET', hash, 'fingerprint')
if before then
  return answer({ outcome = before == event.fingerprint and 'already_sent' or 'id_reused' })
end
if redis.call('ZCARD', due) >= limits.keyed_events_max then
  return quota_reached('keyed_events', limits.keyed_events_max)
end
local runs, after = spread(event.place, nil, event.inbox, event.bytes)
if runs == 0 then
  if #beginning('wf:events:kept', event.place, limits.kept_of_key_max) >= limits.kept_of_key_max then
    return quota_reached('kept_events', limits.kept_of_key_max)
  end
  local kept_bytes = tonumber(redis.call('HGET', key('wf:tenant'), 'keyed_event_bytes') or '0')
  if kept_bytes + event.bytes > limits.keyed_event_bytes_max then
    return quota_reached('keyed_events', limits.keyed_events_max)
  end
  keep_bytes(event.bytes)
  redis.call('ZADD', key('wf:events:kept'), 0, event.place .. '/' .. sortable(now) .. '/' .. event.id)
end
redis.call('HSET', hash, 'fingerprint', event.fingerprint, 'sent_at', integer(now), 'forgotten_at',
  integer(now + call.kept_for))
if runs == 0 or after then
  redis.call('HSET', hash, 'text', event.inbox, 'bytes', integer(event.bytes), 'place', event.place)
end
if after then
  redis.call('HSET', hash, 'after', after)
end
redis.call('ZADD', due, integer(after and now or now + call.kept_for), event.id)
if runs == 0 then
  return answer({ outcome = 'kept' })
end
return answer({ outcome = 'delivered', runs = runs, has_more = after ~= nil })
