-- Reserves one unit of a flash sale for a user and queues the order.
--
-- Begins with sale_history.lua.
-- KEYS  1 sale, 2 buyers {user: reference}, 3 receipts {reference: receipt}, 4 stream of orders,
--       and if orders are findable: 5 the waiting orders {reference: "ms length-of-sale sale user"}
-- ARGV  1 user, 2 reference, 3 maximum orders that may wait in the stream (0: there is no stream),
--       4 whether the sale must have been verified in this term (1 or 0), then names and values for
--       the order
-- Returns {word, …}: RESERVED or YOURS with sequence, ms and entry of the receipt; DUPLICATE with
-- the reference that the user has; NOT_STARTED with the ms until then; UNKNOWN, ENDED, SOLD_OUT,
-- BUSY, GIVEN_BACK, TAKEN (the reference is another user's), UNVOUCHED (the sale was not verified
-- in this term).
--
-- Atomic, because the checks and the reservation must see the same stock and the same buyers, and a
-- reservation that is not in the stream would never become an order. A reference that has a receipt
-- gets it again, so a caller that lost the reply may repeat the call.
local sale = redis.call('HMGET', KEYS[1], 'state', 'left', 'begin', 'end', 'gone', 'vouched')
if sale[1] ~= 'open' then return {'UNKNOWN'} end
if ARGV[4] == '1' then
  local term, unknown = history()
  if not term then return unknown end
  if sale[6] ~= term then return {'UNVOUCHED'} end
end
local receipt = redis.call('HGET', KEYS[3], ARGV[2])
if receipt then
  local state, sequence, at, entry, user =
    string.match(receipt, '^(%u) (%d+) (%d+) (%S+) (.*)$')
  if state == 'B' then return {'GIVEN_BACK'} end
  if user ~= ARGV[1] then return {'TAKEN'} end
  return {'YOURS', sequence, at, entry}
end
-- #include time.lua
if now < tonumber(sale[3]) then
  return {'NOT_STARTED', string.format('%.0f', sale[3] - now)}
end
if now >= tonumber(sale[4]) then return {'ENDED'} end
local had = redis.call('HGET', KEYS[2], ARGV[1])
if had then return {'DUPLICATE', had} end
-- The last unit can be sold: only less than one unit is sold out.
if tonumber(sale[2]) < 1 then return {'SOLD_OUT'} end
local most = tonumber(ARGV[3])
if most > 0 and redis.call('XLEN', KEYS[4]) >= most then return {'BUSY'} end
-- Everything that can fail comes first: every key except the waiting orders has been read by now,
-- and a stream whose ids are used up takes no entry. Whatever fails, no unit is taken.
if KEYS[5] then redis.call('HLEN', KEYS[5]) end
local at, entry = string.format('%.0f', now), '-'
if most > 0 then
  local order = {'XADD', KEYS[4], '*', 'reference', ARGV[2], 'user', ARGV[1], 'time', at}
  for i = 5, #ARGV do order[#order + 1] = ARGV[i] end
  entry = redis.call(unpack(order))
end
redis.call('HINCRBY', KEYS[1], 'left', -1)
local sequence = redis.call('HINCRBY', KEYS[1], 'taken', 1)
if KEYS[5] then
  -- The sale's key is the stream's key, a colon, and the sale's id.
  local id = string.sub(KEYS[1], #KEYS[4] + 2)
  redis.call('HSET', KEYS[5], ARGV[2], at .. ' ' .. #id .. ' ' .. id .. ' ' .. ARGV[1])
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[3], ARGV[2],
  'R ' .. sequence .. ' ' .. at .. ' ' .. entry .. ' ' .. ARGV[1])
for i = 2, 3 do
  if redis.call('HLEN', KEYS[i]) == 1 then redis.call('PEXPIREAT', KEYS[i], sale[5]) end
end
return {'RESERVED', sequence, at, entry}
