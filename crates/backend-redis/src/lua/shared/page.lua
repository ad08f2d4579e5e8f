-- A page of a list that goes backwards: its members, and where the next page begins.
local function read_page(list, after, limit)
  local from = after and '(' .. after or '+'
  local members = redis.call('ZRANGE', list, from, '-', 'BYLEX', 'REV', 'LIMIT', 0, limit + 1)
  if #members <= limit then
    return members, false
  end
  members[#members] = nil
  return members, members[limit] or false
end
