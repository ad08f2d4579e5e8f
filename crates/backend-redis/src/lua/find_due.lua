-- What each tenant has to do now: its ready runs, its first timers, lease, deferred result, held job, budget and child.
-- A tenant whose data is damaged has nothing to do, and does not keep the others from theirs.
local function first(name)
  local found = redis.pcall('ZRANGE', key(name), 0, 0, 'WITHSCORES')
  return not found.err and found[2]
end

local function is_ready()
  local count = redis.pcall('ZCARD', key('wf:ready'))
  return type(count) == 'number' and count > 0
end

local names = { 'wf:ready', 'wf:timers', 'wf:limit:timers', 'wf:leases', 'wf:unclaimed', 'wf:put_off', 'wf:held',
  'wf:budgets:due', 'wf:children:due', 'wf:events:due' }
local keys = {}

-- Most tenants have nothing to do, now or later: one command tells.
local function is_idle()
  for index, name in ipairs(names) do
    keys[index] = key(name)
  end
  return redis.call('EXISTS', unpack(keys)) == 0
end

local tenants = {}
for index, tenant in ipairs(call.tags) do
  tag = tenant
  tenants[index] = is_idle() and { is_ready = false } or { is_ready = is_ready(), timer = first('wf:timers'), limit_timer = first('wf:limit:timers'),
    lease = first('wf:leases'), unclaimed = first('wf:unclaimed'), deferred = first('wf:put_off'), held = first('wf:held'),
    budget = first('wf:budgets:due'), child = first('wf:children:due'),
    event = first('wf:events:due') }
end
return answer({ now = now, tenants = tenants })
