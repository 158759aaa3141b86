-- Gives a lease back.
--
-- KEYS  1 lease
-- ARGV  1 token
-- Returns 1 when it was held with that token, else 0.
--
-- Atomic, because a lease that has passed to somebody else between the look and the deletion would
-- be taken from them.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
