-- A planted fault: deletes the lock without looking at whose it is.
--
-- KEYS  1 the lock
-- Returns 1 when it was there, 0 when it was not. Atomic as what it stands in for is.
local found = redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[1], '')
return found
