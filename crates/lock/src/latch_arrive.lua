-- Records the arrival of a participant.
--
-- KEYS  1 the set of arrived participants  2 participants at work: unused, named for the slot
-- ARGV  1 the participant  2 how many must arrive  3 lifetime in ms
-- Returns the number of arrived participants. Publishes when the last one arrives.
-- Atomic so that exactly the arrival that opens the latch publishes it.
local fresh = redis.call('SADD', KEYS[1], ARGV[1])
local arrived = redis.call('SCARD', KEYS[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
if fresh == 1 and arrived == tonumber(ARGV[2]) then redis.call('PUBLISH', KEYS[1], '') end
return arrived
