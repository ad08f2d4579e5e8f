-- A document about the installation, with its version.
local found = redis.call('HMGET', key(argument()), 'version', 'text')
return { 'ok', found[1] or '', found[2] or '' }
