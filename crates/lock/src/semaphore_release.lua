-- Releases a permit.
--
-- KEYS  1 permits: member by end
-- ARGV  1 owner  2 hold
-- Returns 1 if the permit existed, 0 if not. Publishes when one is free.
-- Atomic so that no message announces a permit that does not exist.
local found = redis.call('ZREM', KEYS[1], ARGV[1] .. ':' .. ARGV[2])
if found == 1 then redis.call('PUBLISH', KEYS[1], '') end
return found
