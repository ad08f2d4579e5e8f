-- needs: claims, debounce
-- The run of a workflow that waits for newer starts in a group, if there is one.
local run, debounced = run_to_debounce(claim_of(call.name, call.group), call.workflow)
return answer(run and show_debounced_run(run, debounced))
