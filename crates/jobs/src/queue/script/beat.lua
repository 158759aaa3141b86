-- Notes that a consumer is alive.
--
-- KEYS[1]  consumers: sorted set of names by the millisecond at which they were last heard of
-- ARGV[1]  consumer
--
-- Returns  nothing of interest.
--
-- A script for the server's time: consumers with different clocks are compared with each other.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
return redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
