-- needs: acquire, visible, quarantine, dead_letters
-- Acquires one run whose last holder neither committed nor released it, or quarantines it after too many tries. A
-- quarantined run is acquired only to be cancelled, with nothing else in its inbox.
local function quarantine(run, tries)
  redis.call('HSET', key('wf:run', run), 'quarantined_at', integer(now), 'tries', integer(tries), 'lease', '0')
  redis.call('DEL', lock_key('wf:run:lock', run))
  -- Whatever comes for it waits in its inbox.
  redis.call('ZREM', key('wf:ready'), run)
  local letter = quarantine_letter(run)
  local document = '{"job":"' .. letter .. '","code":"run_quarantined","reason":' .. call.reason .. ',"attempts":'
    .. integer(tries) .. ',"buried_at":' .. integer(now) .. '}'
  add_dead_letters({ { key = letter, document = document } }, call.dead_letters_max)
end

local function try(run)
  local free, fence, is_own = is_free(run)
  local found = free and read_acquirable(run)
  if not found or not found.start or is_own then
    return nil
  end
  local tries = tonumber(found.tries or '1')
  if found.quarantined_at then
    if found.cancel and (fence or found.lease == '0') then
      return { outcome = 'acquired', value = hand_over(run, found, fence, tries, found.cancel) }
    end
    if found.cancel then
      -- Not even that was survived. A person may ask again, or delete the run.
      redis.call('HSET', key('wf:run', run), 'lease', '0')
      redis.call('HDEL', key('wf:run', run), 'cancel')
    end
    return nil
  end
  if fence then
    return { outcome = 'acquired', value = hand_over(run, found, fence) }
  end
  if not found.lease then
    return nil
  end
  if tries < call.tries_max then
    return { outcome = 'acquired', value = hand_over(run, found, nil, tries + 1) }
  end
  quarantine(run, tries)
  return { outcome = 'quarantined', value = run }
end

for _, run in ipairs(redis.call('ZRANGE', key('wf:ready'), 0, 511)) do
  local tried = try(run)
  if tried then
    return answer(tried)
  end
end
return answer({ outcome = 'nothing' })
