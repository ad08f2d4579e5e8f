-- needs: inspection
-- One page of a check of an invariant. Changes nothing.
local function inspect_page()
  local number_of_look, place = string.match(call.page.after or '', '^(%d+) (.*)$')
  local looks, index = {}, tonumber(number_of_look or '1')
  for _, one in ipairs(rules[call.invariant]) do
    if one.front == call.front then
      looks[#looks + 1] = one
    end
  end
  if not looks[index] then
    return answer({ items = {} })
  end
  local subjects, next_place, places = looks[index].over(place or '', call.page.limit)
  local findings = {}
  for position, subject in ipairs(subjects) do
    local where = places and places[position] or ''
    -- A row that cannot be read does not stop the check of the others.
    local is_read, detail, obstacle = pcall(looks[index].finds, subject, where)
    if is_read and detail then
      findings[#findings + 1] = { subject = subject, detail = detail, obstacle = obstacle, place = where }
    end
  end
  return answer({ next = page_after(looks, index, next_place), items = findings })
end
