-- The runs that hold a slot, oldest first: their ids sort by time.
return answer(redis.call('SORT', key('wf:runs:active'), 'ALPHA', 'LIMIT', 0, call.limit))
