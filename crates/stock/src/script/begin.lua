-- Begins to gather units from several shards for a reference whose home is this shard.
--
-- KEYS, ARGV 1 to 2: see shard.lua
-- ARGV  3 reference, 4 maximum units to take here, 5 ms that the gathering may take, 6 and on the
--       shards that may be asked for a part
-- Returns {BEGUN, attempt, units taken here}, or IS with the record if the reference is already
-- decided.
--
-- Attempts are numbered by the clock, in µs. An attempt that lost its record, as in a rebuild, is
-- never confused with a later one, nor is a verdict about it.
--
-- Atomic, because a new attempt must end the previous one together with the units that it took
-- here.
sweep(16)
local field = 'h:' .. ARGV[3]
local r = read(field)
if r and r.s == 'H' and r.ends <= now then expire(field, r) end
if r and r.s ~= 'G' and r.s ~= 'N' then return answer('IS', r) end
if r and r.s == 'G' then move('held', 'left', r.units) end
local attempt = math.max(r and r.attempt or 0, tonumber(ARGV[1]) * 1000 + 999,
  micros) + 1
local new = {s = 'G', units = math.min(left, tonumber(ARGV[4])), ends = now + ARGV[5],
  attempt = attempt, rest = r and r.rest or '-'}
await_also(field, new, {unpack(ARGV, 6)})
move('left', 'held', new.units)
lasts(field, new)
return {'BEGUN', whole(new.attempt), whole(new.units)}
