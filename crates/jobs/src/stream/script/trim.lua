-- Drops entries that every group has settled.
--
-- KEYS[1]  stream
-- ARGV[1]  'all', 'newest' or 'millis': what is kept of the settled ones
-- ARGV[2]  nothing, how many entries, or for how long
-- ARGV[3]  how many entries are dropped or looked at at most
--
-- Returns  how many were dropped.
--
-- Atomic, because a group could be made, or an entry delivered, between looking and dropping. Never
-- drops an entry that some group has pending or has not been delivered: without a group, none at all.

local most = tonumber(ARGV[3])

-- Ids as two numbers; a sequence that a Lua number cannot hold is left alone.
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
  local time = redis.call('TIME')
  local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
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
  -- With nothing to be kept the last one goes too.
  if #oldest <= math.min(surplus, most) then
    sequence = sequence + 1
  end
  keep_from(millis, sequence)
end

local bound = string.format('%.0f-%.0f', first_millis, first_sequence)
-- Whole nodes first, no more than allowed; what is left of the last node is small.
local dropped = redis.call('XTRIM', KEYS[1], 'MINID', '~', bound, 'LIMIT', most)
if dropped < most then
  dropped = dropped + redis.call('XTRIM', KEYS[1], 'MINID', '=', bound)
end
return dropped
