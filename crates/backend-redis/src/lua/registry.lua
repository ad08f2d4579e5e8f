-- All workers on the bus: when each was last heard of, what they said, and which of them drain.
return { 'ok', integer(now), redis.call('ZRANGE', key('sys:registry:seen'), 0, -1, 'WITHSCORES'),
  redis.call('HGETALL', key('sys:registry:handshakes')), redis.call('HGETALL', key('sys:registry:beats')),
  redis.call('SMEMBERS', key('sys:registry:draining')) }
