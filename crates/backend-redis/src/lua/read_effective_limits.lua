-- needs: usage
local found = read_usage()
return answer({ runs_max = found.usage.runs_max, key_retention = found.key_retention })
