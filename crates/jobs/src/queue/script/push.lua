-- Appends an element to the queue, and rings the bell for one blocked consumer.
--
-- KEYS[1]  the queue
-- KEYS[2]  bell: a list with one entry for each element that no consumer was woken for
-- ARGV[1]  element
-- ARGV[2]  most entries of the bell
--
-- Returns  the number of waiting elements.
--
-- Atomic, so that a consumer that is woken by the bell finds the element.

-- Read before the push: if another program uses the bell's key with another type, the script must
-- fail here, or a retry would push the element twice.
redis.call('LLEN', KEYS[2])
local length = redis.call('LPUSH', KEYS[1], ARGV[1])
redis.call('LPUSH', KEYS[2], '')
redis.call('LTRIM', KEYS[2], 0, tonumber(ARGV[2]) - 1)
return length
