-- Carries out at a part what was decided at its home.
--
-- KEYS, ARGV 1 to 2: see shard.lua
-- ARGV  3 reference, 4 attempt, 5 verdict: S sold, R goes back, K keep on, 6 ms until the home is
--       asked again, for K
-- Returns {OK, units moved}.
--
-- Atomic, because the units of a part must move exactly once; a verdict about another attempt moves
-- nothing.
local field, attempt, verdict = 'p:' .. ARGV[3], tonumber(ARGV[4]), ARGV[5]
local r = read(field)
if not r or r.attempt < attempt then
  -- The part may still be on its way: it will find that it is too late.
  if verdict == 'R' then
    if r and r.s == 'H' then move('held', 'left', r.units) end
    finish(field, {s = 'R', units = 0, ends = 0, attempt = attempt, rest = '-'}, 'R')
  end
  return {'OK', '0'}
end
if r.attempt > attempt then return {'OK', '0'} end
if r.s == 'H' and verdict == 'K' then
  redis.call('ZADD', parts, whole(now + ARGV[6]), field)
  return {'OK', '0'}
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
