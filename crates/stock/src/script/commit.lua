-- Turns a gathering into a hold or a sale.
--
-- KEYS, ARGV 1 to 2: see shard.lua
-- ARGV  3 reference, 4 attempt, 5 ms that the hold lasts, 6 its parts elsewhere, 7 H to hold, S to
--       sell, 8 and on the shards that have no part: see answered() in shard.lua
-- Returns NEW or IS with the record, or {NONE} if the attempt is over.
--
-- Atomic, because this one step decides about the units of all shards.
local field = 'h:' .. ARGV[3]
local r = read(field)
if not r or r.attempt ~= tonumber(ARGV[4]) then return {'NONE'} end
if r.s ~= 'G' then return r.s == 'N' and {'NONE'} or answer('IS', r) end
if r.ends <= now then
  expire(field, r)
  return {'NONE'}
end
r.s, r.rest = ARGV[7], ARGV[6] == '-' and r.rest or ARGV[6]
await_also(field, r, shards_of(r.rest))
answered(field, r, 8)
if ARGV[7] == 'S' then
  move('held', 'sold', r.units)
  finish(field, r, 'S')
else
  r.ends = now + ARGV[5]
  lasts(field, r)
end
return answer('NEW', r)
