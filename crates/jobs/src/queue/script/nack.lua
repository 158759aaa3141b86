-- Gives an item back that was not done.
--
-- KEYS[1]  waiting: sorted set of ids by the millisecond at which they are due
-- KEYS[2]  leased: sorted set of ids by the end of their lease
-- KEYS[3]  tokens, by id
-- KEYS[4]  dead: sorted set of ids by the time of their end
-- KEYS[5]  notes, by id: of the living the token from which attempts are counted, of the dead the reason
-- ARGV[1]  id
-- ARGV[2]  token
-- ARGV[3]  milliseconds until it is due again
-- ARGV[4]  attempts that count, and a half more when it has to be handed out alone again
-- ARGV[5]  attempts after which it is dead; 0 for at once; -1 for never
-- ARGV[6]  reason
-- ARGV[7]  channel on which consumers listen
--
-- Returns  'waiting', 'dead', or 'lost' when it is not under this token's lease
--
-- Atomic, because between seeing whose an item is and moving it, it could become another's.

if not redis.call('ZSCORE', KEYS[2], ARGV[1]) or redis.call('HGET', KEYS[3], ARGV[1]) ~= ARGV[2] then
  return 'lost'
end
-- All keys are looked at before the first is changed: one that is somebody else's must not lose an item.
redis.call('ZCARD', KEYS[1])
redis.call('ZCARD', KEYS[4])
redis.call('HLEN', KEYS[5])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
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
