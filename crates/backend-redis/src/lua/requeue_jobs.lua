-- needs: jobs
-- Goes through the newest jobs: lists the topics of those that wait, and puts those into their queue that are open,
-- with no worker, held by no policy, and in no queue.
local waiting, put_back = {}, {}
for _, place in ipairs(redis.call('ZRANGE', key('wf:jobs'), '+', '-', 'BYLEX', 'REV', 'LIMIT', 0, call.limit)) do
  local job = string.sub(place, 17)
  local found = redis.pcall('HMGET', key('wf:job', job), 'topic', 'end_cause', 'fence', 'held')
  -- One that cannot be read does not keep the others waiting.
  if not found.err and found[1] and not found[2] and not found[3] and not found[4] then
    if release_job(job) then
      put_back[#put_back + 1] = job
    end
    waiting[#waiting + 1] = found[1]
  end
end
return answer({ waiting = waiting, put_back = put_back })
