-- Numbers and sends one message of a broadcast.
--
-- KEYS[1]  counter of the broadcast's messages
-- ARGV[1]  channel
-- ARGV[2]  body
--
-- Returns  the number of connections that received it.
--
-- Atomic, so that messages are sent in the order of their numbers, by which listeners detect gaps.
-- A missing counter starts at the server's time: a listener that remembers an older number sees a
-- gap, never the same number again.

-- #include time.lua
redis.call('SET', KEYS[1], string.format('%.0f', micros), 'NX')
local number = redis.call('INCR', KEYS[1])
return redis.call('PUBLISH', ARGV[1], string.format('%.0f', number) .. ' ' .. ARGV[2])
