local final = { succeeded = true, failed = true, denied = true, cancelled = true, timed_out = true }
