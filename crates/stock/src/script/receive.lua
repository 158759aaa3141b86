-- Receives units of a receipt, up to a number.
--
-- KEYS, ARGV 1 to 2: see shard.lua
-- ARGV  3 receipt, 4 units that this shard has of it afterwards, 5 units of the whole receipt, 6 this
--       shard's share of it, 7 units that a shard can have received at most
-- Returns {ADDED, units added}, {DIFFERS, units} when the receipt came with another number before, or
-- {TOO_MANY, units} when the shard could not have the whole share: nothing was added.
--
-- Atomic, because what is added and what is noted must agree: whoever repeats adds nothing.
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
