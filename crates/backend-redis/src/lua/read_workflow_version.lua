-- needs: workflows
-- A version of a workflow, also of one that was deleted since.
return answer(read_version(call.id, integer(call.version)))
