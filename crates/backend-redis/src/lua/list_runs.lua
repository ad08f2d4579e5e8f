-- needs: page, starts, texts
-- A page of runs, newest first.
return answer_page(key('wf:runs'), function(run)
  local wanted, found = call.filter, read_fields(key('wf:run', run), 'status', 'workflow', 'parent')
  if (wanted.status or found.status) ~= found.status or (wanted.workflow or found.workflow) ~= found.workflow
    or (wanted.parent or found.parent) ~= found.parent then
    return nil
  end
  local item = read_fields(key('wf:run', run), 'start', 'head')
  local start, start_bytes = show_start(run, item.start)
  local head, head_bytes = show_text(item.head, 'head', run)
  return { start = start, head = head }, start_bytes + head_bytes
end, 5000)
