-- Finishes items that are done.
--
-- KEYS[1]  leased: sorted set of ids, scored by the end of their lease
-- KEYS[2]  payloads, by id
-- KEYS[3]  tokens, by id
-- KEYS[4]  recently finished: sorted set of ids, scored by the time they finished
-- KEYS[5]  notes, by id
-- ARGV[1]  milliseconds for which a finished id is remembered
-- ARGV[2…] pairs: id, token
--
-- Returns  for each item: 1 if it is finished (now or before), 0 if the lease was lost to another
--          consumer
--
-- Atomic, because another consumer could get the item between the check of its lease and its end.

-- Reads every key before the first write: if another program uses one of them with another type,
-- the script fails here and no item is lost.
redis.call('ZCARD', KEYS[1])
for _, key in ipairs({KEYS[2], KEYS[3], KEYS[5]}) do redis.call('HLEN', key) end
-- #include time.lua
local remember = tonumber(ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', string.format('(%.0f', now - remember))
local outcomes = {}
for index = 2, #ARGV, 2 do
  local id = ARGV[index]
  local outcome = 0
  if redis.call('ZSCORE', KEYS[1], id) and redis.call('HGET', KEYS[3], id) == ARGV[index + 1] then
    redis.call('ZREM', KEYS[1], id)
    redis.call('HDEL', KEYS[2], id)
    redis.call('HDEL', KEYS[3], id)
    redis.call('HDEL', KEYS[5], id)
    if remember > 0 then
      redis.call('ZADD', KEYS[4], string.format('%.0f', now), id)
    end
    outcome = 1
  elseif redis.call('ZSCORE', KEYS[4], id) then
    outcome = 1
  end
  outcomes[#outcomes + 1] = outcome
end
return outcomes
