-- Reads or changes a set by time, if it is complete.
--
-- KEYS  1 set (zset member -> score, its time), 2 marker ("count flag"; flag 1: the source has
--       nothing older), 3 lease of a rebuild
-- ARGV  1 mode, then 'put': 2 score, 3 member, 4 how many are kept (0: all); 'remove': 2 member;
--       'has': members; 'count'; 'first': 2 how many; 'newest': 2 largest score, 3 how many;
--       'since': 2 score
-- Returns nil if the set is not complete. put: 1 added, 0 existed or too old to be kept; remove: 1
--   or 0; has: the score or nil of each; count; first: members; newest: the flag, members and
--   scores; since: a number.
--
-- Atomic, because a set that is not complete must neither be changed (it would hide what is
-- missing) nor read, marker and members change together, and a rebuild that has read the source
-- before a change must not publish after it.
local mode = ARGV[1]
local marker = redis.call('GET', KEYS[2])
local count = redis.call('ZCARD', KEYS[1])
-- Redis may have evicted one key and kept the other.
local complete = marker and tonumber(string.match(marker, '^%d+')) == count
local changes = mode == 'put' or mode == 'remove'
if changes then redis.call('DEL', KEYS[3]) end
if not complete then return false end
local flag = string.match(marker, '%d+$')

if mode == 'has' then return redis.call('ZMSCORE', KEYS[1], unpack(ARGV, 2)) end
if mode == 'count' then return count end
if mode == 'first' then return redis.call('ZRANGE', KEYS[1], 0, ARGV[2] - 1) end
if mode == 'newest' then
  return {flag, redis.call('ZREVRANGEBYSCORE', KEYS[1], ARGV[2], '-inf', 'WITHSCORES',
    'LIMIT', 0, ARGV[3])}
end
if mode == 'since' then return redis.call('ZCOUNT', KEYS[1], '(' .. ARGV[2], '+inf') end

local changed, kept, trimmed = 0, true, false
if mode == 'put' then
  if flag == '0' then
    -- Members that only the source has may lie between the oldest one kept and an older one.
    local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
    if not oldest then
      redis.call('DEL', KEYS[2])
      return false
    end
    if tonumber(ARGV[2]) < tonumber(oldest) then return 0 end
  end
  changed = redis.call('ZADD', KEYS[1], ARGV[2], ARGV[3])
  local over = count + changed - ARGV[4]
  if tonumber(ARGV[4]) > 0 and over > 0 then
    redis.call('ZREMRANGEBYRANK', KEYS[1], 0, over - 1)
    flag, trimmed = '0', true
    kept = redis.call('ZSCORE', KEYS[1], ARGV[3])
  end
else
  changed = redis.call('ZREM', KEYS[1], ARGV[2])
end
if changed == 1 or trimmed then
  local left = redis.call('PTTL', KEYS[2])
  redis.call('SET', KEYS[2], redis.call('ZCARD', KEYS[1]) .. ' ' .. flag, 'KEEPTTL')
  -- The first member creates a key without a lifetime.
  if count == 0 and left > 0 then redis.call('PEXPIRE', KEYS[1], left) end
end
return kept and changed or 0
