return { 'ok', redis.call('GET', argument()) }
