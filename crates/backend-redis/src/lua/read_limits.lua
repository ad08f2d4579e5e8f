-- needs: written_limits
return answer(read_written_limits(call.scope))
