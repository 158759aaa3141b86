-- Confirms reservations, gives their units back, or takes their units out of the sale.
--
-- KEYS  1 sale, 2 buyers {user: reference}, 3 receipts {reference: receipt}, and where orders can be
--       found: 4 those that wait
-- ARGV  1 what they become: C confirmed, B given back, V void (given back, and there is no unit),
--       then references
-- Returns a word for each: DONE; ALREADY; NONE (nobody has it; when given back it is noted, so that a
-- reservation that arrives later is refused); OVER (confirming what was given back); UNKNOWN (no such
-- sale).
--
-- Atomic, because the unit must go back exactly once, together with the user's right to buy again.
local sale = redis.call('HMGET', KEYS[1], 'state', 'gone')
local to = ARGV[1]
local after = to == 'C' and 'C' or 'B'

local function decide(reference)
  if KEYS[4] then redis.call('HDEL', KEYS[4], reference) end
  if sale[1] ~= 'open' then return 'UNKNOWN' end
  local receipt = redis.call('HGET', KEYS[3], reference)
  if not receipt then
    if after == 'B' then
      redis.call('HSET', KEYS[3], reference, 'B 0 0 - ')
      redis.call('PEXPIREAT', KEYS[3], sale[2])
    end
    return 'NONE'
  end
  local state, rest, user = string.match(receipt, '^(%u)( %d+ %d+ %S+ )(.*)$')
  if state == after then return 'ALREADY' end
  if state == 'B' then return 'OVER' end
  redis.call('HSET', KEYS[3], reference, after .. rest .. user)
  if after == 'C' then
    redis.call('HINCRBY', KEYS[1], 'confirmed', 1)
    return 'DONE'
  end
  if state == 'C' then redis.call('HINCRBY', KEYS[1], 'confirmed', -1) end
  redis.call('HINCRBY', KEYS[1], 'back', 1)
  if to == 'V' then
    redis.call('HINCRBY', KEYS[1], 'received', -1)
  else
    redis.call('HINCRBY', KEYS[1], 'left', 1)
  end
  if redis.call('HGET', KEYS[2], user) == reference then redis.call('HDEL', KEYS[2], user) end
  return 'DONE'
end

local words = {}
for i = 2, #ARGV do words[i - 1] = decide(ARGV[i]) end
return words
