-- Decides about a hold at its home.
--
-- KEYS, ARGV 1 to 2: see shard.lua
-- ARGV  3 reference, 4 the new state: S sold, R released, B taken back, N gathered in vain;
--       ? only reads
--       5 attempt; required for N
-- Returns DONE or IS with the record as it is now, or {NONE}. Returns {NONE, BEFORE} for an attempt
-- from before the rebuild of this shard: the rebuild has included everything that counts. Releasing
-- an unknown reference is recorded, so that a hold that arrives later finds it released.
--
-- Atomic, because a hold is sold, released or expires, and never two of these.
local field, to = 'h:' .. ARGV[3], ARGV[4]
local r = read(field)
if r and r.s == 'H' and r.ends <= now then expire(field, r) end
if not r or (r.s == 'N' and to == 'R') then
  if to ~= 'R' then
    local rebuilt = redis.call('HGET', shard, 'rebuilt')
    if rebuilt and tonumber(ARGV[5]) <= rebuilt * 1000 + 999 then return {'NONE', 'BEFORE'} end
    return {'NONE'}
  end
  r = {s = 'R', units = 0, ends = 0, attempt = r and r.attempt or 0, rest = r and r.rest or '-'}
  finish(field, r, 'R')
  return {'NONE'}
end
if to == 'S' and r.s == 'H' then
  move('held', 'sold', r.units)
elseif to == 'R' and (r.s == 'H' or r.s == 'G') then
  move('held', 'left', r.units)
elseif to == 'B' and r.s == 'S' then
  move('sold', 'left', r.units)
  -- Its parts have to answer once more.
  await_also(field, r, shards_of(r.rest))
elseif to == 'N' and r.s == 'G' and r.attempt == tonumber(ARGV[5]) then
  move('held', 'left', r.units)
  r.units = 0
else
  return answer('IS', r)
end
finish(field, r, to)
return answer('DONE', r)
