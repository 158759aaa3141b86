-- Names consumers that have not been heard of for long.
--
-- KEYS[1]  consumers: sorted set of names by the millisecond at which they were last heard of
-- ARGV[1]  milliseconds of silence
-- ARGV[2]  how many at most
--
-- Returns  their names.
--
-- A script for the server's time.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local before = string.format('%.0f', now - tonumber(ARGV[1]))
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', before, 'LIMIT', 0, ARGV[2])
