-- Lists consumers that have been silent for too long.
--
-- KEYS[1]  consumers: sorted set of names, scored by the millisecond of their last sign of life
-- ARGV[1]  milliseconds of silence
-- ARGV[2]  most names to return
--
-- Returns  their names.
--
-- A script, because it uses the server's time.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local before = string.format('%.0f', now - tonumber(ARGV[1]))
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', before, 'LIMIT', 0, ARGV[2])
