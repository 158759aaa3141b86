-- Takes the oldest element, and notes that its consumer is alive.
--
-- KEYS[1]  the queue
-- KEYS[2]  what this consumer has in hand
-- KEYS[3]  consumers: sorted set of names by the millisecond at which they were last heard of
-- KEYS[4]  bell: a list with one entry for each element that nobody was woken for
-- ARGV[1]  consumer
--
-- Returns  the element, or nothing when there is none.
--
-- Atomic, so that there is never anything in the hands of a consumer that is not noted, however late
-- this arrives and whatever becomes of the consumer after it: what is noted can be put back. For an empty
-- queue nobody has to be woken any more.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call('ZADD', KEYS[3], string.format('%.0f', now), ARGV[1])
local element = redis.call('LMOVE', KEYS[1], KEYS[2], 'RIGHT', 'LEFT')
if not element then
  redis.call('DEL', KEYS[4])
end
return element
