-- Makes a gathering a hold, or a sale.
--
-- KEYS, ARGV 1 to 2: see shard.lua
-- ARGV  3 reference, 4 attempt, 5 ms that the hold lasts, 6 its parts elsewhere, 7 H to hold, S to sell
-- Returns NEW or IS with the record, or {NONE} when the attempt is over.
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
r.rest = ARGV[6]
if ARGV[7] == 'S' then
  move('held', 'sold', r.units)
  finish(field, r, 'S')
else
  r.s, r.ends = 'H', now + ARGV[5]
  lasts(field, r)
end
return answer('NEW', r)
