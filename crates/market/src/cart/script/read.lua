-- Reads a cart, the newest item first.
--
-- KEYS, ARGV 1 to 2: see shared.lua
-- Returns {OK, sku, count, detail, …}, or {ABSENT}.
--
-- Atomic, because counts and details must be read at the same moment.
if not is_there then return {'ABSENT'} end
local reply = {'OK'}
for _, sku in ipairs(redis.call('ZREVRANGE', order, 0, -1)) do
  local d = redis.call('HGET', details, sku)
  local count = redis.call('HGET', counts, sku)
  if d and count then
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = sku, count, d
  end
end
for i = 1, 5 do redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
return reply
