-- Notes that an item is begun alone: from here on the attempt counts.
--
-- KEYS[1]  leased: sorted set of ids by the end of their lease
-- KEYS[2]  tokens, by id
-- KEYS[3]  notes, by id: the token from which attempts are counted, and a half less where one was begun
-- ARGV[1]  id
-- ARGV[2]  token
-- ARGV[3]  attempts that count, this one included
--
-- Returns  1, or 0 when it is not under this token's lease
--
-- Atomic, because between seeing whose an item is and noting the attempt, it could become another's. May
-- be repeated.

if not redis.call('ZSCORE', KEYS[1], ARGV[1]) or redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[3], ARGV[1], string.format('%.1f', ARGV[2] - ARGV[3] - 0.5))
return 1
