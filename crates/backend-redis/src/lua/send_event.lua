-- needs: status, inbox
-- Puts an event into the inbox of a live run, once for each id. The tally of a run counts what it ever got; `used_events`
-- and `used_event_bytes` are what its turns have used up of it.
local run, event = call.run, call.event
local hash, sent = key('wf:run', run), key('wf:run:events', run)
local found = read_fields(hash, 'status', 'events', 'event_bytes', 'used_events', 'used_event_bytes')
if not found.status then
  return missing()
end
local before = redis.call('HGET', sent, event.id)
if before then
  return answer({ outcome = before == event.fingerprint and 'already_sent' or 'id_reused' })
end
if final[found.status] then
  return answer({ outcome = 'run_ended' })
end
local count, bytes = tonumber(found.events or '0') + 1, tonumber(found.event_bytes or '0') + event.bytes
if count > limits.run_events_max then
  return quota_reached('run_events', limits.run_events_max)
end
if count - tonumber(found.used_events or '0') > limits.untaken_events_max
  or bytes - tonumber(found.used_event_bytes or '0') > limits.untaken_event_bytes_max then
  return quota_reached('untaken_events', limits.untaken_events_max)
end
redis.call('HSET', sent, event.id, event.fingerprint)
redis.call('HSET', hash, 'events', integer(count), 'event_bytes', integer(bytes))
post(run, event.inbox)
return answer({ outcome = 'sent' })
