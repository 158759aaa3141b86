-- Numbers and sends one message of a namespace (on a Cluster, where entries lie elsewhere).
--
-- KEYS[1]  counter of the namespace's messages
-- ARGV[1]  channel
-- ARGV[2]  body
--
-- Returns  the message's number.
--
-- Atomic, so that messages leave in the order of their numbers. A counter that is not there begins
-- at the server's time: whoever remembers an older one sees a gap, never the same number again.

-- #include time.lua
redis.call('SET', KEYS[1], micros, 'NX')
local number = redis.call('INCR', KEYS[1])
redis.call('PUBLISH', ARGV[1], string.format('%.0f', number) .. ' ' .. ARGV[2])
return number
