-- Gives a permit back.
--
-- KEYS  1 permits: member by end
-- ARGV  1 owner  2 hold
-- Returns 1 when the permit was there, 0 when it was not. Publishes when one is free.
-- Atomic so that nobody is told of a permit that is not there.
local found = redis.call('ZREM', KEYS[1], ARGV[1] .. ':' .. ARGV[2])
if found == 1 then redis.call('PUBLISH', KEYS[1], '') end
return found
