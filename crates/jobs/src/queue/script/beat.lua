-- Records that a consumer is alive.
--
-- KEYS[1]  consumers: sorted set of names, scored by the millisecond of their last sign of life
-- ARGV[1]  consumer
--
-- Returns  nothing of interest.
--
-- A script, because it uses the server's time: consumers may have different clocks.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
return redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
