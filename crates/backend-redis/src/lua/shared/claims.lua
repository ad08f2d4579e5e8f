-- A group of a limit is written `<limit>:<group>`, the group escaped as in `model::limit::GroupKey`. All keys of the group
-- end with it, and the fields of a run name its groups by it.
local tenant_runs = 'tenant-runs:'

local function claim_of(limit, group)
  local escaped = string.gsub(group, '[^A-Za-z0-9_.-]', function(character)
    return string.format('%%%02X', string.byte(character))
  end)
  return limit .. ':' .. escaped
end

local function limit_of(claim)
  return (string.match(claim, '^[^:]*'))
end

local function escaped_group_of(claim)
  return (string.match(claim, ':(.*)$'))
end

local function group_name_of(claim)
  return (string.gsub(escaped_group_of(claim), '%%(%x%x)', function(digits)
    return string.char(tonumber(digits, 16))
  end))
end

-- The groups that a run counts in, by its field `claims`.
local function claims_in(text)
  local claims = {}
  for claim in string.gmatch(text or '', '%S+') do
    claims[#claims + 1] = claim
  end
  return claims
end
