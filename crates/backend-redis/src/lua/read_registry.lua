-- All workers on NATS: when each was last heard, what they reported, and which of them drain.
return answer({
  now = now,
  seen = redis.call('ZRANGE', key('sys:registry:seen'), 0, -1, 'WITHSCORES'),
  handshakes = redis.call('HGETALL', key('sys:registry:handshakes')),
  beats = redis.call('HGETALL', key('sys:registry:beats')),
  draining = redis.call('SMEMBERS', key('sys:registry:draining')),
})
