-- Gives a mutex back, if this hold has it. After token.lua, owned.lua and leave.lua.
--
-- KEYS  1 the lock  2 its holds
-- ARGV  1 owner  2 hold
-- Returns 1 when the hold was there, 0 when it was not. Publishes on the lock's key when it is free.
-- Atomic because between looking at the owner and deleting the lock may change hands.
local found, free = leave(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
if free then redis.call('PUBLISH', KEYS[1], '') end
return found and 1 or 0
