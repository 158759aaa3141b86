-- Lists consumers that have been silent for too long.
--
-- KEYS[1]  consumers: sorted set of names, scored by the millisecond of their last sign of life
-- ARGV[1]  milliseconds of silence
-- ARGV[2]  most names to return
--
-- Returns  their names.
--
-- A script, because it uses the server's time.

-- #include time.lua
local before = string.format('%.0f', now - tonumber(ARGV[1]))
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', before, 'LIMIT', 0, ARGV[2])
