-- Records that an item is begun alone: from now on the attempt counts, and has a whole lease.
--
-- KEYS[1]  leased: sorted set of ids, scored by the end of their lease
-- KEYS[2]  tokens, by id
-- KEYS[3]  notes, by id: the token from which attempts are counted, minus 0.5 if an attempt was
--          begun
-- ARGV[1]  id
-- ARGV[2]  token
-- ARGV[3]  attempts that count, including this one
-- ARGV[4]  lease in milliseconds, from now on
--
-- Returns  1, or 0 if this token does not hold the item's lease
--
-- Atomic, because another consumer could get the item between the check of its lease and the write.
-- Safe to repeat. The lease is extended because its consumer may have waited long before it began: the
-- item must not be blamed for that.

if not redis.call('ZSCORE', KEYS[1], ARGV[1]) or redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then
  return 0
end
-- #include time.lua
redis.call('ZADD', KEYS[1], string.format('%.0f', now + tonumber(ARGV[4])), ARGV[1])
redis.call('HSET', KEYS[3], ARGV[1], string.format('%.1f', ARGV[2] - ARGV[3] - 0.5))
return 1
