-- Takes the oldest element, and records that its consumer is alive.
--
-- KEYS[1]  the queue
-- KEYS[2]  the list of elements that this consumer has taken
-- KEYS[3]  consumers: sorted set of names, scored by the millisecond of their last sign of life
-- KEYS[4]  bell: a list with one entry for each element that no consumer was woken for
-- ARGV[1]  consumer
--
-- Returns  the element, or nothing if the queue is empty.
--
-- Atomic, so that every taken element belongs to a recorded consumer, however late this script
-- arrives and whatever happens to the consumer afterwards: elements of recorded consumers can be
-- put back. If the queue is empty the bell is deleted, because no consumer needs to be woken.

-- #include time.lua
redis.call('ZADD', KEYS[3], string.format('%.0f', now), ARGV[1])
local element = redis.call('LMOVE', KEYS[1], KEYS[2], 'RIGHT', 'LEFT')
if not element then
  redis.call('DEL', KEYS[4])
end
return element
