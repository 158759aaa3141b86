-- Names the next generation to every process that adds to this part.
--
-- KEYS  1 part
-- ARGV  1 the next generation
-- Returns 1, or 0 if there is no such part.
--
-- Atomic, because a mark on a part that was removed meanwhile would create a new, empty one.
if redis.call('GETRANGE', KEYS[1], 0, 3) ~= 'SWB1' then return 0 end
redis.call('BITFIELD', KEYS[1], 'SET', 'u63', 64, ARGV[1])
return 1
