-- What stands for an idempotency key: the run that it started, or the one that it is reserved for. The fields of a
-- reservation are the fence of the admission lock that it was made under, and when it ends.
local function key_name(workflow, name)
  return key('wf:run:idempotency', workflow .. ':' .. name)
end

-- The record, whether or not its time is over.
local function read_key(name)
  local value = redis.call('GET', name)
  if not value then
    return nil
  end
  local is_json, record = pcall(cjson.decode, value)
  if not is_json or type(record) ~= 'table' or type(record.run) ~= 'string' or type(record.fingerprint) ~= 'string' then
    error('what stands for the idempotency key is not ours')
  end
  local reservation = record.reservation
  if reservation and (type(reservation) ~= 'table' or type(reservation.fence) ~= 'number'
    or type(reservation['until']) ~= 'number') then
    error('what stands for the idempotency key is not ours')
  end
  return record
end

-- The record, if it says something now.
local function live_key(name)
  local record = read_key(name)
  if not record or record.expires_at and now >= record.expires_at
    or record.reservation and now >= record.reservation['until'] then
    return nil
  end
  return record
end

-- Writes it for this long; without a time, for ever. On a test's clock it does not expire by itself.
local function write_key_record(name, record, lasts)
  if lasts and is_own_clock then
    redis.call('SET', name, record, 'PX', integer(math.max(lasts, 1)))
  else
    redis.call('SET', name, record)
  end
end
