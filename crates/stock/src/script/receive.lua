-- Brings this shard up to a number of units of a receipt.
--
-- KEYS, ARGV 1 to 2: see shard.lua
-- ARGV  3 receipt, 4 units of the receipt that this shard has afterwards, 5 units of the whole
--       receipt, 6 this shard's share of it, 7 maximum units that a shard can have received
-- Returns {ADDED, units added}, {DIFFERS, units} if the receipt had another number before, or
-- {TOO_MANY, units} if the shard cannot take the whole share: nothing was added.
--
-- Atomic, because the units added and the record must agree: a repetition adds nothing.
sweep(16)
local field, total = 'r:' .. ARGV[3], tonumber(ARGV[5])
local r = read(field) or {units = 0, attempt = total, rest = '-'}
if r.attempt ~= total then return {'DIFFERS', whole(r.attempt)} end
local received = tonumber(redis.call('HGET', shard, 'received'))
if received - r.units + ARGV[6] > tonumber(ARGV[7]) then return {'TOO_MANY', whole(received)} end
local added = math.max(0, tonumber(ARGV[4]) - r.units)
redis.call('HINCRBY', shard, 'received', whole(added))
redis.call('HINCRBY', shard, 'left', whole(added))
r.units = r.units + added
finish(field, r, 'I')
return {'ADDED', whole(added)}
