-- Opens a bucket that nobody used yet, or closes it for good.
--
-- KEYS[1]  gate
-- ARGV[1]  'open' or 'gone'
-- ARGV[2]  for how long a closed gate is remembered, in milliseconds
--
-- Returns  the gate's state.
--
-- Atomic, because a gate that was closed must not be opened again by somebody who comes late.

if ARGV[1] == 'open' then
  redis.call('HSETNX', KEYS[1], 'state', 'open')
else
  redis.call('HSET', KEYS[1], 'state', 'gone')
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return redis.call('HGET', KEYS[1], 'state')
