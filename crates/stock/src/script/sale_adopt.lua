-- Records a unit that a user has according to a database.
--
-- KEYS  1 sale, 2 buyers {user: reference}, 3 receipts {reference: receipt}
-- ARGV  1 user, 2 reference
-- Returns DONE, ALREADY, OVER (it was given back), or UNKNOWN (no such sale).
--
-- Atomic, because a receipt, its buyer and the numbers of the sale belong together, and a unit that
-- was given back meanwhile must not be revived.
local sale = redis.call('HMGET', KEYS[1], 'state', 'gone')
if sale[1] ~= 'open' then return 'UNKNOWN' end
-- All keys are read before the first is changed.
local receipt = redis.call('HGET', KEYS[3], ARGV[2])
local has = redis.call('HGET', KEYS[2], ARGV[1])
if receipt then
  if string.sub(receipt, 1, 1) == 'B' then return 'OVER' end
  if has == ARGV[2] then return 'ALREADY' end
else
  local sequence = redis.call('HINCRBY', KEYS[1], 'taken', 1)
  redis.call('HINCRBY', KEYS[1], 'confirmed', 1)
  redis.call('HINCRBY', KEYS[1], 'received', 1)
  redis.call('HSET', KEYS[3], ARGV[2], 'C ' .. sequence .. ' 0 - ' .. ARGV[1])
  redis.call('PEXPIREAT', KEYS[3], sale[2])
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('PEXPIREAT', KEYS[2], sale[2])
return 'DONE'
