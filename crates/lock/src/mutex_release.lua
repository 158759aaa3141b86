-- Releases a mutex, if this hold has it. Before token.lua, owned.lua, leave.lua and
-- mutex_leave.lua.
--
-- KEYS  1 the lock  2 its holds
-- ARGV  1 owner  2 hold
-- Returns 1 if the hold existed, 0 if not. Publishes on the lock's key when it is free.
-- Atomic because the lock may change hands between reading the owner and deleting the key.
--
-- A single hold is the usual case and comes first, as in mutex_acquire.lua.
if redis.call('GET', KEYS[1]) == ARGV[1] .. ':' .. ARGV[2] then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[1], '')
  return 1
end
