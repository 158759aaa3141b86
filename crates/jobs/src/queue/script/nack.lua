-- Gives back an item that was not done.
--
-- KEYS[1]  waiting: sorted set of ids, scored by the millisecond at which they are due
-- KEYS[2]  leased: sorted set of ids, scored by the end of their lease
-- KEYS[3]  tokens, by id
-- KEYS[4]  dead: sorted set of ids, scored by the time they died
-- KEYS[5]  notes, by id: for a live item the token from which attempts are counted, for a dead item
--          the reason
-- ARGV[1]  id
-- ARGV[2]  token
-- ARGV[3]  milliseconds until the item is due again
-- ARGV[4]  attempts that count, plus 0.5 if the item must be handed out alone again
-- ARGV[5]  attempts after which the item is dead; 0 for at once; -1 for never
-- ARGV[6]  reason
-- ARGV[7]  channel on which consumers listen
--
-- Returns  'waiting', 'dead', or 'lost' if this token does not hold the item's lease
--
-- Atomic, because another consumer could get the item between the check of its lease and the move.

if not redis.call('ZSCORE', KEYS[2], ARGV[1]) or redis.call('HGET', KEYS[3], ARGV[1]) ~= ARGV[2] then
  return 'lost'
end
-- Reads every key before the first write: if another program uses one of them with another type,
-- the script fails here and no item is lost.
redis.call('ZCARD', KEYS[1])
redis.call('ZCARD', KEYS[4])
redis.call('HLEN', KEYS[5])
-- #include time.lua
local tally, limit = tonumber(ARGV[4]), tonumber(ARGV[5])
redis.call('ZREM', KEYS[2], ARGV[1])
if limit >= 0 and tally >= limit then
  redis.call('ZADD', KEYS[4], string.format('%.0f', now), ARGV[1])
  redis.call('HSET', KEYS[3], ARGV[1], string.format('%.0f', math.floor(tally)))
  redis.call('HSET', KEYS[5], ARGV[1], ARGV[6])
  return 'dead'
end
redis.call('HSET', KEYS[5], ARGV[1], string.format(tally % 1 > 0 and '%.1f' or '%.0f', ARGV[2] - tally))
redis.call('ZADD', KEYS[1], string.format('%.0f', now + tonumber(ARGV[3])), ARGV[1])
if redis.call('ZRANGE', KEYS[1], 0, 0)[1] == ARGV[1] then
  redis.call('PUBLISH', ARGV[7], 'due')
end
return 'waiting'
