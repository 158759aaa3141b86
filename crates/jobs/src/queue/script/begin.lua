-- Records that an item is begun alone: from now on the attempt counts.
--
-- KEYS[1]  leased: sorted set of ids, scored by the end of their lease
-- KEYS[2]  tokens, by id
-- KEYS[3]  notes, by id: the token from which attempts are counted, minus 0.5 if an attempt was
--          begun
-- ARGV[1]  id
-- ARGV[2]  token
-- ARGV[3]  attempts that count, including this one
--
-- Returns  1, or 0 if this token does not hold the item's lease
--
-- Atomic, because another consumer could get the item between the check of its lease and the write.
-- Safe to repeat.

if not redis.call('ZSCORE', KEYS[1], ARGV[1]) or redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[3], ARGV[1], string.format('%.1f', ARGV[2] - ARGV[3] - 0.5))
return 1
