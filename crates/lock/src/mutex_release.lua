-- Gives a mutex back, if this hold has it. Before token.lua, owned.lua, leave.lua and mutex_leave.lua.
--
-- KEYS  1 the lock  2 its holds
-- ARGV  1 owner  2 hold
-- Returns 1 when the hold was there, 0 when it was not. Publishes on the lock's key when it is free.
-- Atomic because between looking at the owner and deleting the lock may change hands.
--
-- The only hold is the usual case and comes first, as in mutex_acquire.lua.
if redis.call('GET', KEYS[1]) == ARGV[1] .. ':' .. ARGV[2] then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[1], '')
  return 1
end
