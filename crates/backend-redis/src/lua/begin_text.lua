-- Makes room for a large text, which is then written from its end to its beginning. It stays for a while, unless a script
-- takes it.
local name = key('wf:sent', call.id)
redis.call('SETRANGE', name, call.bytes - 1, '\0')
redis.call('PEXPIRE', name, integer(call.kept_for))
return answer()
