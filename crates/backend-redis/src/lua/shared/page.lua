-- A page of a list that goes backwards: its members, and where the next page begins.
local function read_page(list, after, limit)
  local from = after and after ~= '' and '(' .. after or '+'
  local members = redis.call('ZRANGE', list, from, '-', 'BYLEX', 'REV', 'LIMIT', 0, limit + 1)
  if #members <= limit then
    return members, false
  end
  members[#members] = nil
  return members, members[limit] or false
end

-- The page that the call asks for, of what `view` makes of each member, with its bytes. It passes over members of which
-- `view` makes nil, and looks at a bounded number of them, so that a page of rare ones still ends.
local function answer_page(list, view, looked_at_max)
  local page = call.page
  local members, next_page = read_page(list, page.after, looked_at_max or page.limit)
  local items, last, bytes = {}, false, 0
  for _, member in ipairs(members) do
    if #items == page.limit or bytes > answer_bytes_max then
      return answer({ next = last, items = items })
    end
    last = member
    local item, size = view(member)
    items[#items + 1], bytes = item, bytes + (size or 0)
  end
  return answer({ next = next_page, items = items })
end
