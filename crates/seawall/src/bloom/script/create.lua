-- Creates a part of a filter, empty.
--
-- KEYS  1 part
-- ARGV  1 bits of a part
-- Returns 1.
--
-- Atomic, because a part that has its header and not its length would grow under those who add.
redis.call('SET', KEYS[1], 'SWB1')
redis.call('SETBIT', KEYS[1], 255 + ARGV[1], 0)
return 1
