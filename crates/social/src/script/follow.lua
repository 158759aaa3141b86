-- Reads or changes a follow set, if it is complete.
--
-- KEYS  1 set, and if it has a source: 2 marker ("count flag")
-- ARGV  1 'follow', 'unfollow', 'has', 'count' or 'scan', 2 limit (0: none) or cursor of the scan,
--       3… members, or how many to scan
-- Returns nil if the set is not complete. follow: 1 added, 0 existed, 2 full; unfollow: 1 or 0;
--   has: 1 or 0 for each member; count: a number; scan: the next cursor and some members.
--
-- Atomic, because a set that is not complete must neither be changed (it would hide what is
-- missing) nor read, and marker and set change together.
local mode = ARGV[1]
local count = redis.call('SCARD', KEYS[1])
if KEYS[2] then
  local marker = redis.call('GET', KEYS[2])
  -- Redis may have evicted one key and kept the other.
  if not marker or tonumber(string.match(marker, '^%d+')) ~= count then return false end
end
if mode == 'count' then return count end
if mode == 'has' then return redis.call('SMISMEMBER', KEYS[1], unpack(ARGV, 3)) end
if mode == 'scan' then return redis.call('SSCAN', KEYS[1], ARGV[2], 'COUNT', ARGV[3]) end
local changed
if mode == 'follow' then
  if redis.call('SISMEMBER', KEYS[1], ARGV[3]) == 1 then return 0 end
  if tonumber(ARGV[2]) > 0 and count >= tonumber(ARGV[2]) then return 2 end
  changed = redis.call('SADD', KEYS[1], ARGV[3])
  count = count + 1
else
  changed = redis.call('SREM', KEYS[1], ARGV[3])
  count = count - changed
end
if changed == 1 and KEYS[2] then
  local left = redis.call('PTTL', KEYS[2])
  redis.call('SET', KEYS[2], count .. ' 0', 'KEEPTTL')
  -- The first member creates a key without a lifetime.
  if count == 1 and left > 0 then redis.call('PEXPIRE', KEYS[1], left) end
end
return changed
