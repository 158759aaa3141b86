-- Enters a session in its user's index.
--
-- KEYS  1 index (zset digest -> when it ends at the latest; half a ms later while it is being opened)
-- ARGV  1 digest, 2 longest lifetime in ms, 3 how many a user may have, 4 when it ends, or '' for the
--       longest lifetime from now, 5 whether it is open: 0 while it is being opened, 1 once it is, unless
--       its entry was taken out meanwhile, 2 once it was restored
-- Returns {when it ends}, for an open one where entries are too many also digests and scores of all of
-- them, the oldest first; or {0} when its entry was taken out while it was being opened.
--
-- Atomic, because of two who open at once the later must count the earlier. The order of entries never
-- changes while one of them turns from being opened to open.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
local last = ARGV[4]
if last == '' then
  -- Two that begin in one millisecond end in two, or half a millisecond could change their order.
  local newest = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
  last = string.format('%.0f', math.max(now + ARGV[2], math.floor(newest or 0) + 1))
end
local score = last
if ARGV[5] == '0' then
  score = last .. '.5'
elseif ARGV[5] == '1' and not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return {'0'}
end
redis.call('ZADD', KEYS[1], score, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if ARGV[5] == '0' or redis.call('ZCARD', KEYS[1]) <= tonumber(ARGV[3]) then return {last} end
return {last, redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')}
