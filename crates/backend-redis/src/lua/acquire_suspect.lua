-- needs: acquire, visible, quarantine, dead_letters
-- Acquires one run that holder after holder neither committed nor released, or quarantines it after too many tries. A
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
  local free, fence = is_free(run)
  local found = free and read_acquirable(run)
  if not found or not found.start or (found.quarantined_at and not found.cancel) then
    return nil
  end
  local tries = abandoned(found)
  if tries < limits.suspect_from and not fence then
    return nil
  end
  if tries >= call.tries_max and not found.cancel and not fence then
    quarantine(run, tries)
    return { outcome = 'quarantined', value = run }
  end
  return { outcome = 'acquired', value = { run = hand_over(run, found, fence, tries, found.cancel), tries = tries } }
end

for _, run in ipairs(redis.call('ZRANGE', key('wf:ready'), 0, 511)) do
  local tried = try(run)
  if tried then
    return answer(tried)
  end
end
return answer({ outcome = 'nothing' })
