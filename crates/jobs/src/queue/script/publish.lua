-- Numbers and sends one message of a broadcast.
--
-- KEYS[1]  counter of the broadcast's messages
-- ARGV[1]  channel
-- ARGV[2]  body
--
-- Returns  how many connections were told.
--
-- Atomic, so that messages leave in the order of their numbers, by which listeners see gaps. A counter
-- that is not there begins at the server's time: whoever remembers an older one sees a gap, never the
-- same number again.

local time = redis.call('TIME')
redis.call('SET', KEYS[1], string.format('%.0f', time[1] * 1000000 + time[2]), 'NX')
local number = redis.call('INCR', KEYS[1])
return redis.call('PUBLISH', ARGV[1], string.format('%.0f', number) .. ' ' .. ARGV[2])
