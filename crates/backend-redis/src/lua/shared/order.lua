-- Whether one text stands before another byte by byte. '<' would ask the server's language.
local function precedes(one, other)
  for index = 1, math.min(#one, #other) do
    local left, right = string.byte(one, index), string.byte(other, index)
    if left ~= right then
      return left < right
    end
  end
  return #one < #other
end
