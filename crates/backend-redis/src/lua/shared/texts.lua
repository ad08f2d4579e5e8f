-- Large documents. Its sender puts each under a key of its own before the call; a script gives that key the name of what the
-- document belongs to, and leaves the field empty where it would stand. No script makes a text of it.
local function text_key(kind, id)
  return key('wf:text', kind .. ':' .. id)
end

-- Keeps what was sent ahead.
local function take_sent(document, name)
  redis.call('RENAME', key('wf:sent', document.sent), name)
  redis.call('PERSIST', name)
end

-- What stands in the field of a document, and whether it has a key of its own.
local function keep_text(document, kind, id)
  if type(document) ~= 'table' then
    return document, false
  end
  take_sent(document, text_key(kind, id))
  return '', true
end

-- A document for an answer, and its bytes.
local function show_text(text, kind, id)
  if text ~= '' then
    return text, #(text or '')
  end
  local name = text_key(kind, id)
  return text_at(name), redis.call('STRLEN', name)
end

local function drop_text(kind, id)
  redis.call('UNLINK', text_key(kind, id))
end
