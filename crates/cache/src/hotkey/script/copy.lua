-- Stores a copy of an entry, if the lease that was taken before the entry was read still lives.
--
-- KEYS[1]  name of the copy
-- ARGV[1]  token of the lease, 8 bytes
-- ARGV[2]  the entry, without its lease
-- ARGV[3]  how long the copy lives, in milliseconds
--
-- Returns  1, or 0 when the lease is gone: an invalidation came between.
--
-- Atomic, because the check and the store must see the same lease.

if redis.call('GETRANGE', KEYS[1], 16, 23) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
