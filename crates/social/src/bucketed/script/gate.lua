-- Opens a bucket that was not used yet, or closes it permanently.
--
-- KEYS[1]  gate
-- ARGV[1]  'open' or 'gone'
-- ARGV[2]  for how long a closed gate is kept, in milliseconds
--
-- Returns  the gate's state.
--
-- Atomic, because a late process must not open a gate again that was closed.

if ARGV[1] == 'open' then
  redis.call('HSETNX', KEYS[1], 'state', 'open')
else
  redis.call('HSET', KEYS[1], 'state', 'gone')
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return redis.call('HGET', KEYS[1], 'state')
