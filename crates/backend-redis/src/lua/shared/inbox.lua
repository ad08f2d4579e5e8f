-- What a run must take into account waits in a list. Its first entry has the number `inbox_base` + 1.
local function post(run, event)
  redis.call('RPUSH', key('wf:inbox', run), event)
  redis.call('ZADD', key('wf:ready'), 0, run)
end
