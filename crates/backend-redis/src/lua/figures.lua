-- What every process has counted of a roll-out.
return { 'ok', redis.call('HGETALL', key('sys:contention:figures', argument())) }
