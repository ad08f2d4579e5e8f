-- The runs that hold a slot, oldest first: their ids sort by time.
return { 'ok', redis.call('SORT', key('wf:runs:active'), 'ALPHA', 'LIMIT', 0, argument()) }
