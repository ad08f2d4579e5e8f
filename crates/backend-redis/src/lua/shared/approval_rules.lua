-- needs: inspection
-- What must be true of what waits for people: approvals and dead letters.
local function verdict_on(approval)
  return look('HGET', key('wf:approval', approval), 'verdict')
end

rules.approval_of_ended_run = { {
  over = over_ordered('wf:approvals:open'),
  finds = function(approval)
    local state, verdict = state_of_run(run_of(approval)), verdict_on(approval)
    if not state or verdict == nil or not is_scored('wf:approvals:open', approval) then
      return nil
    end
    return verdict ~= 'open' and 'the list of open approvals names one that is not open'
      or state == 'gone' and 'an approval is open, and the run does not exist'
      or state == 'ended' and 'an approval is open, and the run has ended'
  end,
  repairs = function(approval)
    if verdict_on(approval) == 'open' then
      redis.call('HSET', key('wf:approval', approval), 'state', '"withdrawn"', 'verdict', 'withdrawn')
    end
    redis.call('ZREM', key('wf:approvals:open'), approval)
  end,
}, {
  over = over_runs(function(run, place, limit)
    return scanned('SSCAN', key('wf:run:approvals', run), place, limit, 1)
  end),
  finds = function(approval)
    return verdict_on(approval) == 'open' and is_scored('wf:approvals:open', approval) == false
      and state_of_run(run_of(approval)) == 'ended' and 'an approval is open, and the run has ended'
  end,
  repairs = function(approval)
    redis.call('HSET', key('wf:approval', approval), 'state', '"withdrawn"', 'verdict', 'withdrawn')
  end,
} }

rules.approval_not_listed = { {
  over = over_runs(function(run, place, limit)
    return scanned('SSCAN', key('wf:run:approvals', run), place, limit, 1)
  end),
  finds = function(approval)
    return verdict_on(approval) == 'open' and is_scored('wf:approvals:open', approval) == false
      and state_of_run(run_of(approval)) == 'live' and 'the run waits for an approval that no list shows'
  end,
  repairs = function(approval)
    redis.call('ZADD', key('wf:approvals:open'), 0, approval)
  end,
} }

rules.dead_letters_growing = { {
  over = function()
    return { string.sub(tag, 2, -2) }, nil
  end,
  finds = function(tenant)
    local letters = tenant == string.sub(tag, 2, -2) and look('ZCARD', key('wf:dead_letters:index')) or 0
    return letters >= limits.dead_letters_reported_from
      and integer(letters) .. ' dead letters wait to be retried or deleted',
      'each needs a decision by hand: retry or delete it'
  end,
} }
