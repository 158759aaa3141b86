-- Enters a session in its user's index.
--
-- KEYS  1 index (zset digest -> latest end of the session; plus half a ms while it is being opened)
-- ARGV  1 digest, 2 longest lifetime in ms, 3 sessions per user, 4 when it ends, or '' for the
--       longest lifetime from now, 5 state: 0 while it is being opened, 1 once it is open (fails if
--       its entry was removed meanwhile), 2 once it was restored
-- Returns {when it ends, its score without the half}; for an open session, if there are too many
--   entries, also the digests and scores of all of them by score; or {0} if its entry was removed
--   while it was being opened.
--
-- Atomic, because of two sessions that are opened at once the later must count the earlier. The
-- order of entries never changes when one of them becomes open. No session ends later than its
-- entry, and no entry later than the index. So a process that ends all sessions of a user finds
-- them there, whatever the longest lifetime was when they were opened.
-- #include time.lua
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
  -- The session may live until then.
  score = math.max(score, math.floor(tonumber(known)))
elseif ARGV[4] == '' then
  -- Two sessions that begin in the same millisecond get different scores, or the half millisecond
  -- could change their order. Sessions that end much later were opened with another longest
  -- lifetime.
  local same = redis.call('ZREVRANGEBYSCORE', KEYS[1], text(most + 1000), text(most), 'WITHSCORES',
    'LIMIT', 0, 1)[2]
  if same then score = math.max(score, math.floor(same) + 1) end
end
redis.call('ZADD', KEYS[1], text(score) .. (ARGV[5] == '0' and '.5' or ''), ARGV[1])
-- Comes after the ZADD, which a full Redis refuses: after another write the ZADD would be accepted.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', text(now))
local highest = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
if highest then redis.call('PEXPIREAT', KEYS[1], text(math.floor(highest) + 1)) end
local ends = {text(last), text(score)}
if ARGV[5] ~= '0' and redis.call('ZCARD', KEYS[1]) > tonumber(ARGV[3]) then
  ends[3] = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
end
return ends
