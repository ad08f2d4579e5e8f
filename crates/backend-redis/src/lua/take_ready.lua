-- Takes ready runs that nobody holds: the tenant's first ones, or the one that is named.
local limit, named = number(), argument()
read_taker()
local runs = { named }
if named == '' then
  runs = redis.call('ZRANGE', key('wf:ready'), 0, 511)
elseif not redis.call('ZSCORE', key('wf:ready'), named) then
  runs = {}
end
local taken = {}
for _, run in ipairs(runs) do
  if #taken == limit or bytes > answer_bytes_max then
    break
  end
  taken[#taken + 1] = take(run)
end
return { 'ok', integer(now), taken }
