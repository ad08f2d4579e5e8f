-- needs: usage, run_bounds, quotas
local found = read_usage()
return answer({ runs_max = found.usage.runs_max, queue = found.queue, key_retention = found.key_retention,
  bounds = run_bounds(), quotas = read_quotas() })
