-- Creates an empty part of a filter.
--
-- KEYS  1 part
-- ARGV  1 bits of a part
-- Returns 1.
--
-- Atomic, because a part with a header but without its full length would grow while keys are added.
redis.call('SET', KEYS[1], 'SWB1')
redis.call('SETBIT', KEYS[1], 255 + ARGV[1], 0)
return 1
