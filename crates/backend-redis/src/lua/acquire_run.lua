-- needs: acquire
-- Acquires a run, if it is ready and no other instance holds it.
local is_ready = redis.call('ZSCORE', key('wf:ready'), call.run)
return answer(is_ready and acquire(call.run))
