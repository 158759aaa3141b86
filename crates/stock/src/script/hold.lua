-- Holds units of this shard alone, or sells them at once.
--
-- KEYS, ARGV 1 to 2: see shard.lua
-- ARGV  3 reference, 4 units, 5 ms that the hold lasts, 6 H to hold, S to sell
-- Returns NEW or IS (the reference is already decided here) with the record, {SHORT, left}, or
-- {MORE, left}: like SHORT, but more holds may have ended, and the next call returns their units.
--
-- Atomic, because checking and taking must see the same number.
local more = sweep(16)
local field = 'h:' .. ARGV[3]
local r = read(field)
if r and r.s == 'H' and r.ends <= now then expire(field, r) end
if r and r.s ~= 'G' and r.s ~= 'N' then return answer('IS', r) end
local units = tonumber(ARGV[4])
local function short() return left + (r and r.s == 'G' and r.units or 0) < units end
if more and short() then
  more = ends(128) == 128
  -- The hold of this reference may have been among them.
  r = read(field)
end
-- The comparison is strict, so the last unit can be taken.
if short() then return {more and 'MORE' or 'SHORT', whole(left)} end
-- A repetition replaces a gathering; its parts find another attempt here and return.
if r and r.s == 'G' then move('held', 'left', r.units) end
local new = {s = 'H', units = units, ends = now + ARGV[5], attempt = (r and r.attempt or 0) + 1,
  rest = r and r.rest or '-'}
if ARGV[6] == 'S' then
  move('left', 'sold', units)
  finish(field, new, 'S')
else
  move('left', 'held', units)
  lasts(field, new)
end
return answer('NEW', new)
