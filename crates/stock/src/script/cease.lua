-- Ends gatherings whose home is this shard, because a shard at which they may have parts is
-- rebuilt.
--
-- KEYS, ARGV 1 to 2: see shard.lua
-- ARGV  3 and on: references
-- Returns {OK, number of gatherings ended}.
--
-- Atomic, because a gathering is either committed, and its record lists its parts, or ended.
local ended = 0
for i = 3, #ARGV do
  local field = 'h:' .. ARGV[i]
  local r = read(field)
  if r and r.s == 'G' then
    expire(field, r)
    ended = ended + 1
  end
end
return {'OK', whole(ended)}
