-- Returns the members of one bucket of a sorted set that come after a place in its order.
--
-- KEYS[1]  gate
-- KEYS[2]  bucket
-- ARGV[1]  'up' for ascending scores, 'down' for descending ones
-- ARGV[2]  score of the place, or '' for the beginning
-- ARGV[3]  member of the place; members with equal scores are ordered by their bytes
-- ARGV[4]  number of members
--
-- Returns  {state of the gate, number of members before the place, {member, score, …}}
--
-- Atomic, because the place is found by binary search, and must not move meanwhile.

local function before(one, other)
  for index = 1, math.min(#one, #other) do
    local a, b = string.byte(one, index), string.byte(other, index)
    if a ~= b then
      return a < b
    end
  end
  return #one < #other
end

local state = redis.call('HGET', KEYS[1], 'state') or 'absent'
local limit = tonumber(ARGV[4])
local skipped, start = 0, 0
if ARGV[2] ~= '' then
  local low = redis.call('ZCOUNT', KEYS[2], '-inf', '(' .. ARGV[2])
  local high = redis.call('ZCOUNT', KEYS[2], '-inf', ARGV[2])
  local last = high
  while low < high do
    local middle = math.floor((low + high) / 2)
    if before(redis.call('ZRANGE', KEYS[2], middle, middle)[1], ARGV[3]) then
      low = middle + 1
    else
      high = middle
    end
  end
  local same = low < last and redis.call('ZRANGE', KEYS[2], low, low)[1] == ARGV[3] and 1 or 0
  if ARGV[1] == 'up' then
    skipped, start = low, low + same
  else
    local total = redis.call('ZCARD', KEYS[2])
    skipped, start = total - low - same, total - low
  end
end
if limit == 0 then
  return {state, skipped, {}}
elseif ARGV[1] == 'up' then
  return {state, skipped, redis.call('ZRANGE', KEYS[2], start, start + limit - 1, 'WITHSCORES')}
end
return {state, skipped, redis.call('ZREVRANGE', KEYS[2], start, start + limit - 1, 'WITHSCORES')}
