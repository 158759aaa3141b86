-- Opens a sale in Redis from what the database says.
--
-- KEYS  1 sale, 2 buyers
-- ARGV  1 stock, 2 begin, 3 end, 4 when both keys end, then user and order of each buyer
-- Returns 1, or 0 when the sale was open already.
--
-- Atomic, because a sale that is open before its buyers are known would sell to them twice, and of
-- two processes that open it only the first may set the stock.
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('DEL', KEYS[2])
for i = 5, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
redis.call('PEXPIREAT', KEYS[2], ARGV[4])
redis.call('HSET', KEYS[1], 'stock', ARGV[1], 'begin', ARGV[2], 'end', ARGV[3])
redis.call('PEXPIREAT', KEYS[1], ARGV[4])
return 1
