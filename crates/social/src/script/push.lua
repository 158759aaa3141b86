-- Adds a post to an inbox and trims the inbox.
--
-- KEYS  1 inbox (zset post -> ms)
-- ARGV  1 ms, 2 post, 3 how many are kept, 4 lifetime in ms (0: forever)
-- Returns 1.
--
-- Atomic, because with a separate trim every lost trim would let the inbox grow.
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
local over = redis.call('ZCARD', KEYS[1]) - ARGV[3]
-- A limit that was lowered is reached step by step.
if over > 0 then redis.call('ZREMRANGEBYRANK', KEYS[1], 0, math.min(over, 1000) - 1) end
if tonumber(ARGV[4]) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[4]) end
return 1
