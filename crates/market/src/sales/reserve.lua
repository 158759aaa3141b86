-- Reserves one unit of a flash sale for a user and queues the order.
--
-- KEYS  1 sale {stock, begin, end}, 2 buyers {user: order}, 3 stream of orders, 4 queued orders
-- ARGV  1 user, 2 order, 3 voucher, 4 most orders that may wait, 5 ms that keys outlive the sale
-- Returns {word} or {word, order}: RESERVED, UNKNOWN, NOT_STARTED, ENDED, DUPLICATE with the order
-- that the user has, SOLD_OUT, BUSY.
--
-- Atomic, because the checks and the reservation must see the same stock and the same buyers, and a
-- reservation that is not in the stream would never become an order. The same order again is
-- RESERVED again: whoever lost the reply may ask once more.
local sale = redis.call('HMGET', KEYS[1], 'stock', 'begin', 'end')
if not sale[1] then return {'UNKNOWN'} end
local had = redis.call('HGET', KEYS[2], ARGV[1])
if had == ARGV[2] then return {'RESERVED'} end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if now < tonumber(sale[2]) then return {'NOT_STARTED'} end
if now >= tonumber(sale[3]) then return {'ENDED'} end
if had then return {'DUPLICATE', had} end
if tonumber(sale[1]) < 1 then return {'SOLD_OUT'} end
if redis.call('XLEN', KEYS[3]) >= tonumber(ARGV[4]) then return {'BUSY'} end
redis.call('HINCRBY', KEYS[1], 'stock', -1)
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('PEXPIREAT', KEYS[2], string.format('%.0f', sale[3] + ARGV[5]))
redis.call('HSET', KEYS[4], ARGV[2], ARGV[1] .. ':' .. ARGV[3])
redis.call('XADD', KEYS[3], '*', 'order', ARGV[2], 'user', ARGV[1], 'voucher', ARGV[3],
  'time', string.format('%.0f', now))
return {'RESERVED'}
