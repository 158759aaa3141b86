-- Cancels, reschedules or revives an item that is not leased.
--
-- KEYS[1]  waiting: sorted set of ids, scored by the millisecond at which they are due
-- KEYS[2]  leased: sorted set of ids, scored by the end of their lease
-- KEYS[3]  payloads, by id
-- KEYS[4]  tokens, by id
-- KEYS[5]  dead: sorted set of ids, scored by the time they died
-- KEYS[6]  notes, by id: for a live item the token from which attempts are counted, for a dead item
--          the reason
-- ARGV[1]  id
-- ARGV[2]  'cancel', 'move' (waiting items only), or 'revive' (dead items only, with new attempts)
-- ARGV[3]  milliseconds from now until the item is due
-- ARGV[4]  channel on which consumers listen
--
-- Returns  'done', 'leased' if a consumer has the item, 'dead' if only reviving could help, or
--          'unknown'
--
-- Atomic, because a consumer could claim the item between the check and the change.

local id, what = ARGV[1], ARGV[2]
if redis.call('ZSCORE', KEYS[2], id) then
  return 'leased'
end
local waits = redis.call('ZSCORE', KEYS[1], id)
local dead = redis.call('ZSCORE', KEYS[5], id)
if not waits and not dead then
  return 'unknown'
end
-- Reads every key before the first write: if another program uses one of them with another type,
-- the script fails here and no item is lost.
for _, key in ipairs({KEYS[3], KEYS[4], KEYS[6]}) do redis.call('HLEN', key) end
if what == 'cancel' then
  redis.call('ZREM', KEYS[1], id)
  redis.call('ZREM', KEYS[5], id)
  for key = 3, 4 do
    redis.call('HDEL', KEYS[key], id)
  end
  redis.call('HDEL', KEYS[6], id)
  return 'done'
end
if what == 'move' and dead then
  return 'dead'
end
if what == 'revive' then
  if not dead then
    return 'unknown'
  end
  redis.call('ZREM', KEYS[5], id)
  -- Attempts are counted from this token on.
  redis.call('HSET', KEYS[6], id, redis.call('HGET', KEYS[4], id) or '0')
end
-- #include time.lua
redis.call('ZADD', KEYS[1], string.format('%.0f', now + tonumber(ARGV[3])), id)
if redis.call('ZRANGE', KEYS[1], 0, 0)[1] == id then
  redis.call('PUBLISH', ARGV[4], 'due')
end
return 'done'
