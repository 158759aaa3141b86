-- Releases a lease.
--
-- KEYS  1 lease
-- ARGV  1 token
-- Returns 1 if it was held with that token, else 0.
--
-- Atomic, because otherwise the lease could pass to another process between the check and the
-- deletion, and that process would lose it.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
