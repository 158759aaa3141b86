-- Replaces a collection by a rebuilt one.
--
-- KEYS  1 collection, 2 marker, 3 lease, 4 the rebuilt collection
-- ARGV  1 token of the lease, 2 number of members built, 3 flag, 4 lifetime in ms, 5 'SCARD' or
--       'ZCARD'
-- Returns 1, or 0 if the lease is no longer held.
--
-- Atomic, because collection and marker must change together, and only if the source was not
-- changed since it was read.
local count = tonumber(ARGV[2])
if redis.call('GET', KEYS[3]) ~= ARGV[1] or redis.call(ARGV[5], KEYS[4]) ~= count then
  redis.call('UNLINK', KEYS[4])
  return 0
end
redis.call('UNLINK', KEYS[1])
if count > 0 then
  redis.call('RENAME', KEYS[4], KEYS[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
end
redis.call('SET', KEYS[2], count .. ' ' .. ARGV[3], 'PX', ARGV[4])
redis.call('DEL', KEYS[3])
return 1
