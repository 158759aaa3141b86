-- Stores a new login code and replaces any earlier one.
--
-- KEYS  1 code, 2 tries
-- ARGV  1 the code, 2 its lifetime in ms
-- Returns a constant that callers ignore.
--
-- Atomic, because a new code with the old code's tries would be used up too early, and an old code
-- with a fresh counter could be guessed for longer.
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('DEL', KEYS[2])
return 1
