local found = read_fields(key('wf:worker', call.worker), 'topics', 'capabilities', 'first_seen_at', 'last_seen_at',
  'is_draining')
if not found.topics then
  return answer()
end
found.worker = call.worker
return answer(found)
