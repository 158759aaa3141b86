-- Enters a session in its user's index.
--
-- KEYS  1 index (zset digest -> when it ends at the latest; half a ms later while it is being opened)
-- ARGV  1 digest, 2 longest lifetime in ms, 3 how many a user may have, 4 when it ends, or '' for the
--       longest lifetime from now, 5 whether it is open: 0 while it is being opened, 1 once it is, unless
--       its entry was taken out meanwhile, 2 once it was restored
-- Returns {when it ends, its score without the half}, for an open one where entries are too many also
-- digests and scores of all of them by score; or {0} when its entry was taken out while it was being
-- opened.
--
-- Atomic, because of two who open at once the later must count the earlier. The order of entries never
-- changes while one of them turns from being opened to open. No session ends later than its entry, and no
-- entry later than the index: whoever ends all sessions of a user finds them there, whatever the longest
-- lifetime was when they were opened.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function text(number) return string.format('%.0f', number) end
local known = redis.call('ZSCORE', KEYS[1], ARGV[1])
if known and tonumber(known) <= now then known = false end
if ARGV[5] == '1' and not known then return {'0'} end
local most = now + ARGV[2]
local last = math.min(tonumber(ARGV[4]) or most, most)
local score = last
if ARGV[5] == '1' then
  score = math.floor(tonumber(known))
elseif known then
  -- Its session may live until then.
  score = math.max(score, math.floor(tonumber(known)))
elseif ARGV[4] == '' then
  -- Two that begin in one millisecond have two scores, or half a millisecond could change their order.
  -- Those that end much later were opened when the longest lifetime was another one.
  local same = redis.call('ZREVRANGEBYSCORE', KEYS[1], text(most + 1000), text(most), 'WITHSCORES',
    'LIMIT', 0, 1)[2]
  if same then score = math.max(score, math.floor(same) + 1) end
end
redis.call('ZADD', KEYS[1], text(score) .. (ARGV[5] == '0' and '.5' or ''), ARGV[1])
-- After what a full Redis refuses: behind another write that would be taken.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', text(now))
local highest = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
if highest then redis.call('PEXPIREAT', KEYS[1], text(math.floor(highest) + 1)) end
local ends = {text(last), text(score)}
if ARGV[5] ~= '0' and redis.call('ZCARD', KEYS[1]) > tonumber(ARGV[3]) then
  ends[3] = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
end
return ends
