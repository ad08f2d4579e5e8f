local found = view_job(argument())
if not found[1] then
  return { 'missing' }
end
return { 'ok', found }
