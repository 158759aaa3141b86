-- Confirms a reservation, or gives its unit back.
--
-- KEYS  1 sale, 2 buyers {user: reference}, 3 receipts {reference: receipt}
-- ARGV  1 reference, 2 what it becomes: C confirmed, B given back
-- Returns {word, what it was}: DONE; ALREADY; NONE (nobody has it; when given back it is noted, so
-- that a reservation that arrives later is refused); OVER (confirming what was given back); UNKNOWN
-- (no such sale).
--
-- Atomic, because the unit must go back exactly once, together with the user's right to buy again.
local sale = redis.call('HMGET', KEYS[1], 'state', 'gone')
if sale[1] ~= 'open' then return {'UNKNOWN', ''} end
local receipt = redis.call('HGET', KEYS[3], ARGV[1])
if not receipt then
  if ARGV[2] == 'B' then
    redis.call('HSET', KEYS[3], ARGV[1], 'B 0 0 - ')
    redis.call('PEXPIREAT', KEYS[3], sale[2])
  end
  return {'NONE', ''}
end
local state, rest, user = string.match(receipt, '^(%u)( %d+ %d+ %S+ )(.*)$')
if state == ARGV[2] then return {'ALREADY', state} end
if state == 'B' then return {'OVER', state} end
redis.call('HSET', KEYS[3], ARGV[1], ARGV[2] .. rest .. user)
if ARGV[2] == 'C' then
  redis.call('HINCRBY', KEYS[1], 'confirmed', 1)
  return {'DONE', state}
end
if state == 'C' then redis.call('HINCRBY', KEYS[1], 'confirmed', -1) end
redis.call('HINCRBY', KEYS[1], 'back', 1)
redis.call('HINCRBY', KEYS[1], 'left', 1)
if redis.call('HGET', KEYS[2], user) == ARGV[1] then redis.call('HDEL', KEYS[2], user) end
return {'DONE', state}
