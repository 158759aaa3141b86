-- Adds an element behind all others, and rings for one consumer that waits.
--
-- KEYS[1]  the queue
-- KEYS[2]  bell: a list with one entry for each element that nobody was woken for
-- ARGV[1]  element
-- ARGV[2]  most entries of the bell
--
-- Returns  how many elements wait.
--
-- Atomic, so that whoever hears the bell finds the element.

-- Before anything is pushed: a wake-up list that is somebody else's must not let it be pushed twice.
redis.call('LLEN', KEYS[2])
local length = redis.call('LPUSH', KEYS[1], ARGV[1])
redis.call('LPUSH', KEYS[2], '')
redis.call('LTRIM', KEYS[2], 0, tonumber(ARGV[2]) - 1)
return length
