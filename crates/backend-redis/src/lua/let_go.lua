-- Lets go of a run. Somebody else's hold is none of ours to end; having been let go of already is fine.
local run, fence = argument(), number()
if tonumber(redis.call('HGET', key('wf:run', run), 'lease') or '0') == fence then
  redis.call('HDEL', key('wf:run', run), 'lease')
  release_lock(run, fence)
end
return { 'ok' }
