-- Puts back what a consumer had in hand that has not been heard of for long.
--
-- KEYS[1]  the queue
-- KEYS[2]  what that consumer has in hand
-- KEYS[3]  consumers: sorted set of names by the millisecond at which they were last heard of
-- KEYS[4]  bell: a list with one entry for each element that nobody was woken for
-- ARGV[1]  consumer
-- ARGV[2]  milliseconds of silence
-- ARGV[3]  how many elements at most
-- ARGV[4]  most entries of the bell
--
-- Returns  how many were put back; the consumer is forgotten once it has nothing left, and is noted again
--          when it takes something.
--
-- Atomic, because the consumer may be back between looking and moving. The oldest ends up where the
-- next one is taken from: order is kept.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local heard = redis.call('ZSCORE', KEYS[3], ARGV[1])
if heard and tonumber(heard) > now - tonumber(ARGV[2]) then
  return 0
end
-- Before anything is moved: the wake-up list may be somebody else's.
redis.call('LLEN', KEYS[4])
local moved = 0
while moved < tonumber(ARGV[3]) and redis.call('LMOVE', KEYS[2], KEYS[1], 'LEFT', 'RIGHT') do
  redis.call('LPUSH', KEYS[4], '')
  moved = moved + 1
end
redis.call('LTRIM', KEYS[4], 0, tonumber(ARGV[4]) - 1)
if redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('ZREM', KEYS[3], ARGV[1])
end
return moved
