-- A roll-out that nobody counts any more.
redis.call('DEL', key('sys:contention:figures', argument()))
return { 'ok' }
