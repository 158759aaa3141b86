-- Adds keys to a part of a filter.
--
-- KEYS  1 part
-- ARGV  1 bits of a part, 2 bits of a key, then for each key: start and step of its walk
-- Returns nil if there is no such part; else the next generation (0: none), the number of keys
--   added so far, and for each key 1 if it was new.
--
-- Atomic, because the mark of a next generation and the additions must be ordered: a key that is
-- added without seeing the mark was in the source before the source was read.
if redis.call('GETRANGE', KEYS[1], 0, 3) ~= 'SWB1' then return false end
local bits, hashes = tonumber(ARGV[1]), tonumber(ARGV[2])
local fresh, added = {}, 0
for at = 3, #ARGV, 2 do
  local x, y = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local walk = {}
  for i = 1, hashes do
    local last = #walk
    walk[last + 1], walk[last + 2], walk[last + 3], walk[last + 4] = 'SET', 'u1', 256 + x % bits, 1
    x, y = x + y, y + i
  end
  local new = 0
  for _, before in ipairs(redis.call('BITFIELD', KEYS[1], unpack(walk))) do
    if before == 0 then new = 1 end
  end
  fresh[#fresh + 1] = new
  added = added + new
end
local header = redis.call('BITFIELD', KEYS[1], 'GET', 'u63', 64, 'INCRBY', 'u63', 128, added)
return {header[1], header[2], fresh}
