-- Adds an order to a list that is complete.
--
-- KEYS  1 orders (zset), 2 marker ("count flag"), 3 lease of a rebuild
-- ARGV  1 score, 2 order, 3 how many are kept
-- Returns 1 when it was added, 0 when it was there, nil when the list is not complete.
--
-- Atomic, because adding to a list that has expired since the look would make a list of one order
-- that hides all others; and because a rebuild that has read the source before this order was
-- written must not publish after this script has found no list.
local marker = redis.call('GET', KEYS[2])
local count = redis.call('ZCARD', KEYS[1])
if not marker or tonumber(string.match(marker, '^%d+')) ~= count then
  redis.call('DEL', KEYS[3])
  return false
end
-- A rebuild of a list that is there: what it has read may lack this order too.
redis.call('DEL', KEYS[3])
local added = redis.call('ZADD', KEYS[1], 'NX', ARGV[1], ARGV[2])
if added == 0 then return 0 end
local flag = string.match(marker, '%d+$')
local over = count + 1 - ARGV[3]
if over > 0 then
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, over - 1)
  flag = '0'
end
local left = redis.call('PTTL', KEYS[2])
redis.call('SET', KEYS[2], redis.call('ZCARD', KEYS[1]) .. ' ' .. flag, 'KEEPTTL')
-- The first order makes a key without a lifetime.
if count == 0 and left > 0 then redis.call('PEXPIRE', KEYS[1], left) end
return 1
