return { 'ok', redis.call('HVALS', key('sys:keys')) }
