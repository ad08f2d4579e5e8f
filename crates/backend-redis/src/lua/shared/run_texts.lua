-- needs: texts
-- The large documents of a run itself: `wf:run:texts` names them. Those of its inbox have the number of their event there;
-- its field `texts` says that there may be some.
local function list_text_of(run, name, number)
  redis.call('ZADD', key('wf:run:texts', run), integer(number or 0), name)
  redis.call('HSET', key('wf:run', run), 'texts', '1')
end

-- Keeps a document of the run in place of the one before it, which may be large if the run `has_texts`.
local function keep_text_of(run, document, kind, id, has_texts)
  local text, is_large = keep_text(document, kind, id)
  if is_large then
    list_text_of(run, kind .. ':' .. id)
  elseif has_texts and redis.call('ZREM', key('wf:run:texts', run), kind .. ':' .. id) == 1 then
    drop_text(kind, id)
  end
  return text
end

-- Drops those of its inbox up to this number, or all.
local function drop_texts_of(run, from, to)
  local list = key('wf:run:texts', run)
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', list, from, to)) do
    redis.call('UNLINK', key('wf:text', name))
  end
  redis.call('ZREMRANGEBYSCORE', list, from, to)
end
