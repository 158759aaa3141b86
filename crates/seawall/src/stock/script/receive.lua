-- Receives units of a receipt, up to a number.
--
-- KEYS, ARGV 1 to 2: see shard.lua
-- ARGV  3 receipt, 4 units that this shard has of it afterwards, 5 units of the whole receipt
-- Returns {ADDED, units added}, or {DIFFERS, units} when the receipt came with another number before.
--
-- Atomic, because what is added and what is noted must agree: whoever repeats adds nothing.
sweep(16)
local field, total = 'r:' .. ARGV[3], tonumber(ARGV[5])
local r = read(field) or {units = 0, attempt = total, rest = '-'}
if r.attempt ~= total then return {'DIFFERS', whole(r.attempt)} end
local added = math.max(0, tonumber(ARGV[4]) - r.units)
redis.call('HINCRBY', shard, 'received', whole(added))
redis.call('HINCRBY', shard, 'left', whole(added))
r.units = r.units + added
finish(field, r, 'I')
return {'ADDED', whole(added)}
