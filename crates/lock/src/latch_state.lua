-- How far a latch is.
--
-- KEYS  1 the set of those who arrived  2 those at work: member by end
-- Returns {how many arrived, how many are at work}. Atomic so that the two fit together.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return {redis.call('SCARD', KEYS[1]), redis.call('ZCOUNT', KEYS[2], '(' .. now, '+inf')}
