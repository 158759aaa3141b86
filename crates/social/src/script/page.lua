-- Reads the items after a cursor, newest first.
--
-- KEYS  1 items (zset), and if the list has a source: 2 marker ("count flag")
-- ARGV  1 how many, and unless it is the first page: 2 score and 3 member of the last item seen
-- Returns nil if there is a marker key and it does not say that the list is complete; else the
--   marker's text (or '') and the items with their scores.
--
-- Atomic, because the rank of the cursor is found first, and the items are then read by rank.
local marker = ''
if KEYS[2] then
  marker = redis.call('GET', KEYS[2])
  -- Redis may have evicted one key and kept the other.
  if not marker or tonumber(string.match(marker, '^%d+')) ~= redis.call('ZCARD', KEYS[1]) then
    return false
  end
end

-- Compares bytes: Lua's own comparison follows the server's locale.
local function less(a, b)
  for at = 1, math.min(#a, #b) do
    local x, y = string.byte(a, at), string.byte(b, at)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local from = 0
if ARGV[2] then
  local score, member = ARGV[2], ARGV[3]
  from = redis.call('ZCOUNT', KEYS[1], '(' .. score, '+inf')
  -- Items of that score are in descending order of their bytes; finds the first one that is smaller
  -- than the cursor.
  local low, high = from, from + redis.call('ZCOUNT', KEYS[1], score, score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if less(redis.call('ZREVRANGE', KEYS[1], middle, middle)[1], member) then
      high = middle
    else
      low = middle + 1
    end
  end
  from = low
end
return {marker, redis.call('ZREVRANGE', KEYS[1], from, from + ARGV[1] - 1, 'WITHSCORES')}
