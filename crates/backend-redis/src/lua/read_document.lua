-- A document about the installation, with its version.
return answer(read_fields(key('sys:' .. call.name), 'version', 'text'))
