-- Runs one command on a geo set, if it is complete.
--
-- KEYS  1 geo set, 2 marker ("count flag"), 3 lease of a rebuild
-- ARGV  1 the command (GEOADD, ZREM, or one that only reads), 2… its arguments after the key
-- Returns { 1, reply }, or { 0 } if the set is not complete.
--
-- Atomic, because a set that is not complete must neither be changed (it would hide what is
-- missing) nor read, marker and set change together, and a rebuild that has read the source before
-- this change must not publish after it.
local changes = ARGV[1] == 'GEOADD' or ARGV[1] == 'ZREM'
if changes then redis.call('DEL', KEYS[3]) end
local marker = redis.call('GET', KEYS[2])
-- Redis may have evicted one key and kept the other.
if not marker or tonumber(string.match(marker, '^%d+')) ~= redis.call('ZCARD', KEYS[1]) then
  return { 0 }
end
local reply = redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))
if changes then
  redis.call('SET', KEYS[2], redis.call('ZCARD', KEYS[1]) .. ' 0', 'KEEPTTL')
  -- The first member creates a key without a lifetime.
  local left = redis.call('PTTL', KEYS[2])
  if left > 0 and redis.call('PTTL', KEYS[1]) == -1 then redis.call('PEXPIRE', KEYS[1], left) end
end
return { 1, reply }
