-- Queries keys in a part of a filter.
--
-- KEYS  1 part
-- ARGV  1 bits of a part, 2 bits of a key, then for each key: start and step of its walk
-- Returns nil if there is no such part; else for each key 1 if all of its bits are set.
--
-- Atomic, because a part that disappears after the check of its header would report every key as
-- absent.
if redis.call('GETRANGE', KEYS[1], 0, 3) ~= 'SWB1' then return false end
local bits, hashes = tonumber(ARGV[1]), tonumber(ARGV[2])
local found = {}
for at = 3, #ARGV, 2 do
  local x, y = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local all = 1
  for i = 1, hashes do
    if redis.call('GETBIT', KEYS[1], 256 + x % bits) == 0 then
      all = 0
      break
    end
    x, y = x + y, y + i
  end
  found[#found + 1] = all
end
return found
