-- Puts back the elements of a consumer that has been silent for too long.
--
-- KEYS[1]  the queue
-- KEYS[2]  the list of elements that the consumer has taken
-- KEYS[3]  consumers: sorted set of names, scored by the millisecond of their last sign of life
-- KEYS[4]  bell: a list with one entry for each element that no consumer was woken for
-- ARGV[1]  consumer
-- ARGV[2]  milliseconds of silence
-- ARGV[3]  most elements to put back
-- ARGV[4]  most entries of the bell
--
-- Returns  how many were put back. The consumer is removed from the set once it has no elements
--          left, and is added again when it takes one.
--
-- Atomic, because the consumer may return between the check and the move. The oldest element ends
-- up where the next one is taken from, so the order is kept.

-- #include time.lua
local heard = redis.call('ZSCORE', KEYS[3], ARGV[1])
if heard and tonumber(heard) > now - tonumber(ARGV[2]) then
  return 0
end
-- Read before the move: another program may use the bell's key with another type.
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
