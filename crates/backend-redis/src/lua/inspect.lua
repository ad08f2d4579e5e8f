-- One page of a look for violations of an invariant. Changes nothing.
local after, limit = argument(), number()
local number_of_look, place = string.match(after, '^(%d+) (.*)$')
local looks, index = rules[invariant], tonumber(number_of_look or '1')
local subjects, next_place, places = looks[index].over(place or '', limit)
local findings = {}
for position, subject in ipairs(subjects) do
  local where = places and places[position] or ''
  -- A row that cannot be read does not stop the look at the others.
  local is_read, detail, obstacle = pcall(looks[index].finds, subject, where)
  if is_read and detail then
    findings[#findings + 1] = { subject, detail, obstacle or '', where }
  end
end
local next_page = false
if next_place then
  next_page = integer(index) .. ' ' .. next_place
elseif looks[index + 1] then
  next_page = integer(index + 1) .. ' '
end
return { 'ok', next_page, findings }
