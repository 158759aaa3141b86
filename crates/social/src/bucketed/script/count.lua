-- Counts the members of a bucket.
--
-- KEYS[1]  gate
-- KEYS[2]  bucket
-- KEYS[3]  members that are moving
-- ARGV[1]  'HLEN', 'SCARD' or 'ZCARD'
--
-- Returns  {state of the gate, members, how many of them are moving}
--
-- Atomic, so that the three values are consistent.

local state = redis.call('HGET', KEYS[1], 'state') or 'absent'
return {state, redis.call(ARGV[1], KEYS[2]), redis.call('SCARD', KEYS[3])}
