-- Fragment for Script::with_time, not a script by itself: the server's time, in microseconds and in
-- milliseconds. Every process sees the same clock.
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
