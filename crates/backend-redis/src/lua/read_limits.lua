return answer(read_fields(key(call.name), 'runs_max', 'key_retention_ms', 'revision'))
