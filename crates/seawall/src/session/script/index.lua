-- Enters a session in its user's index.
--
-- KEYS  1 index (zset digest -> when it ends at the latest; half a ms later while it is being opened)
-- ARGV  1 digest, 2 longest lifetime in ms, 3 how many a user may have, 4 its score: '' while it is
--       being opened
-- Returns digests and scores of sessions that are too many, the oldest; they are still in the index.
--
-- Atomic, because of two who open at once each must count the other.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
local score = ARGV[4]
if score == '' then score = string.format('%.0f.5', now + ARGV[2]) end
redis.call('ZADD', KEYS[1], score, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local over = redis.call('ZCARD', KEYS[1]) - ARGV[3]
if over <= 0 then return {} end
return redis.call('ZRANGE', KEYS[1], 0, math.min(over, 500) - 1, 'WITHSCORES')
