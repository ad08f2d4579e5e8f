-- needs: acquire
-- Acquires a run, if it is ready, no other instance holds it, and it is no suspect.
local given = redis.call('ZSCORE', key('wf:ready'), call.run) and acquire(call.run)
return answer(given)
