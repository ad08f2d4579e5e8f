-- How each live process keeps time, as it reported last.
local rhythms, after = {}, '(' .. integer(now - limits.gone_after)
for index, instance in ipairs(redis.call('ZRANGEBYSCORE', key('sys:instances'), after, '+inf')) do
  rhythms[index] = { instance, redis.call('HGET', key('sys:instances:rhythms'), instance) or '' }
end
return answer(rhythms)
