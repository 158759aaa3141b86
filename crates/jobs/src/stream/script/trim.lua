-- Drops entries that every group has settled.
--
-- KEYS[1]  stream
-- ARGV[1]  'all' drops all settled entries, 'newest' keeps a number of entries, 'millis' keeps a time
-- ARGV[2]  nothing, the number of entries, or the time in milliseconds
-- ARGV[3]  most entries to drop or to look at
--
-- Returns  how many were dropped.
--
-- Atomic, because a group could be created, or an entry delivered, between the check and the drop.
-- Never drops an entry that some group has pending or that was not delivered to it yet. Without a
-- group it drops nothing.

local most = tonumber(ARGV[3])

-- Parses an id into two numbers; a number that a Lua number cannot hold is left alone.
local function parts(id)
  local millis, sequence = string.match(id, '^(%d+)-(%d+)$')
  millis, sequence = tonumber(millis), tonumber(sequence)
  if millis >= 2^53 or sequence >= 2^53 then
    return nil
  end
  return millis, sequence
end

local first_millis, first_sequence
local function keep_from(millis, sequence)
  if not first_millis or millis < first_millis
    or (millis == first_millis and sequence < first_sequence) then
    first_millis, first_sequence = millis, sequence
  end
end

if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
local groups = redis.call('XINFO', 'GROUPS', KEYS[1])
if #groups == 0 then
  return 0
end
for _, info in ipairs(groups) do
  local group = {}
  for index = 1, #info, 2 do
    group[info[index]] = info[index + 1]
  end
  local millis, sequence
  if group['pending'] > 0 then
    millis, sequence = parts(redis.call('XPENDING', KEYS[1], group['name'])[2])
  else
    millis, sequence = parts(group['last-delivered-id'])
    sequence = sequence and sequence + 1
  end
  if not millis then
    return 0
  end
  keep_from(millis, sequence)
end

if ARGV[1] == 'millis' then
  -- #include time.lua
  keep_from(math.max(0, now - tonumber(ARGV[2])), 0)
elseif ARGV[1] == 'newest' then
  local surplus = redis.call('XLEN', KEYS[1]) - tonumber(ARGV[2])
  if surplus <= 0 then
    return 0
  end
  local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', math.min(surplus, most) + 1)
  local last = oldest[#oldest][1]
  local millis, sequence = parts(last)
  if not millis then
    return 0
  end
  -- If nothing is to be kept, the last entry is dropped, too.
  if #oldest <= math.min(surplus, most) then
    sequence = sequence + 1
  end
  keep_from(millis, sequence)
end

local bound = string.format('%.0f-%.0f', first_millis, first_sequence)
-- Drops whole nodes first, within the limit; the rest of the last node is small.
local dropped = redis.call('XTRIM', KEYS[1], 'MINID', '~', bound, 'LIMIT', most)
if dropped < most then
  dropped = dropped + redis.call('XTRIM', KEYS[1], 'MINID', '=', bound)
end
return dropped
