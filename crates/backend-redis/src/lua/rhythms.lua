-- How each live process keeps time, as it reported last.
local rhythms, after = {}, '(' .. integer(now - call.gone_after)
for index, instance in ipairs(redis.call('ZRANGEBYSCORE', key('sys:instances'), after, '+inf')) do
  rhythms[index] = { instance = instance, rhythm = redis.call('HGET', key('sys:instances:rhythms'), instance) or '' }
end
return answer({ rhythms = rhythms })
