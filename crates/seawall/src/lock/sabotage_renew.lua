-- A planted fault: renews a lock by writing it again, whoever has it.
--
-- KEYS  1 the lock
-- ARGV  1 owner:hold  2 lease in ms
-- Returns {1}. Atomic as what it stands in for is.
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {1}
