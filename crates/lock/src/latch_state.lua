-- Reads the state of a latch.
--
-- KEYS  1 the set of arrived participants  2 participants at work: member by end
-- Returns {number arrived, number at work}. Atomic so that the two numbers are consistent.
-- #include time.lua
return {redis.call('SCARD', KEYS[1]), redis.call('ZCOUNT', KEYS[2], '(' .. now, '+inf')}
