-- How each process that lives keeps time, as it told last.
local gone_after = number()
local told = {}
for _, instance in ipairs(redis.call('ZRANGEBYSCORE', key('sys:instances'), '(' .. integer(now - gone_after), '+inf')) do
  told[#told + 1] = { instance, redis.call('HGET', key('sys:instances:rhythms'), instance) or '' }
end
return { 'ok', told }
