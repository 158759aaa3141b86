-- Confirms reservations, gives their units back, or takes their units out of the sale.
--
-- KEYS  1 sale, 2 buyers {user: reference}, 3 receipts {reference: receipt}, and if orders are
--       findable: 4 the waiting orders
-- ARGV  1 new state: C confirmed, B given back, V void (given back, but there is no unit), then
--       references
-- Returns a word for each: DONE; ALREADY; NONE (no unit is reserved under it; giving it back is
-- recorded, so that a reservation that arrives later is refused); OVER (confirming what was given
-- back); UNKNOWN (no such sale).
--
-- Atomic, because the unit must go back exactly once, together with the user's right to buy again.
-- Many are confirmed at once: reads and writes for all of them are combined into one command each.
local sale = redis.call('HMGET', KEYS[1], 'state', 'gone')
local to = ARGV[1]
local after = to == 'C' and 'C' or 'B'
-- All keys are read before the first is changed.
redis.call('HLEN', KEYS[2])
local found = redis.call('HMGET', KEYS[3], unpack(ARGV, 2))
if KEYS[4] then redis.call('HDEL', KEYS[4], unpack(ARGV, 2)) end

local words = {}
if sale[1] ~= 'open' then
  for i = 2, #ARGV do words[i - 1] = 'UNKNOWN' end
  return words
end

local receipts = {}
for i, receipt in ipairs(found) do
  receipts[ARGV[i + 1]] = receipt
end
local written = {}
local function write(reference, receipt)
  -- A reference that is listed twice finds, the second time, the result of the first.
  receipts[reference] = receipt
  written[#written + 1] = reference
  written[#written + 1] = receipt
end
local sums = {}
local function count(field, by) sums[field] = (sums[field] or 0) + by end

local function decide(reference)
  local receipt = receipts[reference]
  if not receipt then
    if after == 'B' then write(reference, 'B 0 0 - ') end
    return 'NONE'
  end
  local state, rest, user = string.match(receipt, '^(%u)( %d+ %d+ %S+ )(.*)$')
  if state == after then return 'ALREADY' end
  if state == 'B' then return 'OVER' end
  write(reference, after .. rest .. user)
  if after == 'C' then
    count('confirmed', 1)
    return 'DONE'
  end
  if state == 'C' then count('confirmed', -1) end
  count('back', 1)
  if to == 'V' then count('received', -1) else count('left', 1) end
  if redis.call('HGET', KEYS[2], user) == reference then redis.call('HDEL', KEYS[2], user) end
  return 'DONE'
end

for i = 2, #ARGV do words[i - 1] = decide(ARGV[i]) end
if #written > 0 then
  redis.call('HSET', KEYS[3], unpack(written))
  if after == 'B' then redis.call('PEXPIREAT', KEYS[3], sale[2]) end
end
for field, by in pairs(sums) do redis.call('HINCRBY', KEYS[1], field, by) end
return words
