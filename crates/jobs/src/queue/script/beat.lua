-- Records that a consumer is alive.
--
-- KEYS[1]  consumers: sorted set of names, scored by the millisecond of their last sign of life
-- ARGV[1]  consumer
--
-- Returns  nothing of interest.
--
-- A script, because it uses the server's time: consumers may have different clocks.

-- #include time.lua
return redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
