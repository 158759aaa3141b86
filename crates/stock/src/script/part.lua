-- Takes a part for a hold whose home is another shard.
--
-- KEYS, ARGV 1 to 2: see shard.lua
-- ARGV  3 reference, 4 shard of the home, 5 attempt, 6 maximum units, 7 ms until the home is asked
-- Returns {PART, units}; 0 if nothing is left, or if the attempt is over.
--
-- Atomic, because a part must be taken once per attempt, however late or often this call arrives.
sweep(16)
local field, attempt = 'p:' .. ARGV[3], tonumber(ARGV[5])
local r = read(field)
if r and r.attempt >= attempt then
  return {'PART', (r.attempt == attempt and r.s == 'H') and whole(r.units) or '0'}
end
if r and r.s == 'H' then
  move('held', 'left', r.units)
  found(field)
end
local new = {s = 'H', units = math.min(left, tonumber(ARGV[6])), ends = now + ARGV[7],
  attempt = attempt, rest = ARGV[4]}
if new.units == 0 then
  finish(field, new, 'R')
  return {'PART', '0'}
end
move('left', 'held', new.units)
write(field, new)
redis.call('ZREM', due, field)
redis.call('ZREM', done, field)
redis.call('ZADD', parts, whole(new.ends), field)
return {'PART', whole(new.units)}
