-- needs: page, starts
-- A page of runs, newest first.
return answer_page(key('wf:runs'), function(run)
  local wanted, found = call.filter, read_fields(key('wf:run', run), 'status', 'workflow', 'parent')
  if (wanted.status or found.status) ~= found.status or (wanted.workflow or found.workflow) ~= found.workflow
    or (wanted.parent or found.parent) ~= found.parent then
    return nil
  end
  local item = read_fields(key('wf:run', run), 'start', 'head')
  local start, bytes = show_start(run, item.start)
  item.start = start
  return item, bytes + #item.head
end, 5000)
