-- Carries out at a part what its home has decided.
--
-- KEYS, ARGV 1 to 2: see shard.lua
-- ARGV  3 reference, 4 attempt, 5 verdict: S sold, R returns, K keep waiting, A astray: its home
--       does not know it, 6 ms until the home is asked again, for K and A, 7 for S: units to take
--       from what is left if the part is missing, 8 the home
-- Returns {OK, units moved; for A: units that were not known to be astray}, or {MISSING} if a sold
-- part is not here.
--
-- Atomic, because the units of a part must move exactly once; a verdict about another attempt moves
-- nothing.
local field, attempt, verdict = 'p:' .. ARGV[3], tonumber(ARGV[4]), ARGV[5]
local r = read(field)
if verdict == 'S' and not (r and r.attempt == attempt and (r.s == 'H' or r.s == 'S')) then
  -- The part was lost in a fail-over. Units are interchangeable: others take its place if there are
  -- enough.
  local units = tonumber(ARGV[7])
  if units == 0 or left < units or (r and (r.attempt >= attempt or r.s == 'H')) then
    return {'MISSING'}
  end
  move('left', 'sold', units)
  finish(field, {s = 'S', units = units, ends = 0, attempt = attempt, rest = ARGV[8]}, 'S')
  return {'OK', whole(units)}
end
if not r or r.attempt < attempt then
  -- The part may still be in flight: it will find that it is too late.
  if verdict == 'R' then
    if r and r.s == 'H' then move('held', 'left', r.units) end
    finish(field, {s = 'R', units = 0, ends = 0, attempt = attempt, rest = '-'}, 'R')
  end
  return {'OK', '0'}
end
if r.attempt > attempt then return {'OK', '0'} end
if r.s == 'H' and verdict == 'K' then
  found(field)
  redis.call('ZADD', parts, whole(now + ARGV[6]), field)
  return {'OK', '0'}
end
if r.s == 'H' and verdict == 'A' then
  redis.call('ZADD', parts, whole(now + ARGV[6]), field)
  if redis.call('HSETNX', records, 'u:' .. ARGV[3], whole(r.units)) == 0 then return {'OK', '0'} end
  redis.call('HINCRBY', shard, 'astray', whole(r.units))
  return {'OK', whole(r.units)}
end
if r.s == 'H' and verdict == 'S' then
  move('held', 'sold', r.units)
elseif r.s == 'H' and verdict == 'R' then
  move('held', 'left', r.units)
elseif r.s == 'S' and verdict == 'R' then
  move('sold', 'left', r.units)
else
  return {'OK', '0'}
end
finish(field, r, verdict)
return {'OK', whole(r.units)}
