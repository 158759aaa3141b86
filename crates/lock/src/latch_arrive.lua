-- Counts a participant as arrived.
--
-- KEYS  1 the set of those who arrived  2 those at work: not looked at, named for the slot
-- ARGV  1 the participant  2 how many must arrive  3 lifetime in ms
-- Returns how many have arrived. Publishes when the last one did.
-- Atomic so that exactly the arrival that opens the latch tells of it.
local fresh = redis.call('SADD', KEYS[1], ARGV[1])
local arrived = redis.call('SCARD', KEYS[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
if fresh == 1 and arrived == tonumber(ARGV[2]) then redis.call('PUBLISH', KEYS[1], '') end
return arrived
