-- Begins to gather units of several shards under a reference whose home is here.
--
-- KEYS, ARGV 1 to 2: see shard.lua
-- ARGV  3 reference, 4 most units to take here, 5 ms that the gathering may take, 6 and on the shards
--       that may be asked for a part
-- Returns {BEGUN, attempt, units taken here}, or IS with the record that decided before.
--
-- Attempts are numbered by the clock, in µs: one that lost its record, as with a rebuild, is never
-- taken for a later one, nor is what was said about it.
--
-- Atomic, because a new attempt must end the one before it together with what that one took here.
sweep(16)
local field = 'h:' .. ARGV[3]
local r = read(field)
if r and r.s == 'H' and r.ends <= now then expire(field, r) end
if r and r.s ~= 'G' and r.s ~= 'N' then return answer('IS', r) end
if r and r.s == 'G' then move('held', 'left', r.units) end
local attempt = math.max(r and r.attempt or 0, tonumber(ARGV[1]) * 1000 + 999,
  t[1] * 1000000 + t[2]) + 1
local new = {s = 'G', units = math.min(left, tonumber(ARGV[4])), ends = now + ARGV[5],
  attempt = attempt, rest = r and r.rest or '-'}
await_also(field, new, {unpack(ARGV, 6)})
move('left', 'held', new.units)
lasts(field, new)
return {'BEGUN', whole(new.attempt), whole(new.units)}
