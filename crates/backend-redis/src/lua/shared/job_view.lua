-- needs: texts
local states = { completed = 'succeeded', failed = 'failed', lost = 'lost', revoked = 'cancelled',
  released = 'released', timed_out = 'timed_out',
  cancelled = 'cancelled', denied = 'denied' }

-- The state of a job, by the fields of its hash.
local function state_of(found)
  if found.end_cause then
    return states[found.end_cause]
  end
  return found.worker and 'running' or found.held and 'held' or 'queued'
end

local function lease_of(found)
  return found.worker and { worker = found.worker, fence = found.fence, ttl = found.ttl,
    expires_at = found.expires_at, claimed_at = found.claimed_at, deadline_at = found.lease_deadline, edge = found.edge }
end

-- Where a job waits for its budget.
local function budget_place_of(found)
  if not found.place then
    return nil
  end
  local group, since = string.match(found.place, '^([^/]*)/([^/]*)/')
  return { budget = found.budget, group = group, since = tonumber(since) }
end

local function hold_of(found)
  return found.held and { reason = found.held, detail = found.held_detail, since = found.held_since,
    looks = found.held_looks, look_at = found.held_until, place = budget_place_of(found) }
end

-- A job with its lease, its policy hold and its end, as far as there are any; and the bytes of its document.
local function view_job(job)
  local found = read_fields(key('wf:job', job), 'job', 'created_at', 'worker', 'fence', 'ttl', 'expires_at',
    'claimed_at', 'lease_deadline', 'edge', 'held', 'held_detail', 'held_since', 'held_looks', 'held_until', 'end_cause',
    'end_at', 'end_held', 'end_fence', 'end_worker', 'end_result', 'permit', 'budget', 'place')
  local ended = found.end_cause and { cause = found.end_cause, at = found.end_at, held = found.end_held,
    fence = found.end_fence, worker = found.end_worker, result = found.end_result }
  local document, bytes = show_text(found.job, 'job', job)
  return { job = { new = document, created_at = found.created_at, permit = found.permit,
    ['end'] = ended }, lease = lease_of(found),
    hold = hold_of(found), state = state_of(found) }, bytes
end
