-- Releases a fair lock, or the caller's place in its queue. After token.lua, owned.lua and
-- leave.lua.
--
-- KEYS  1 the lock  2 its holds  3 queue  4 alive
-- ARGV  1 owner  2 hold
-- Returns 1 if the hold existed, 0 if not. Publishes the first waiter when the lock is free.
-- Atomic because the notified waiter must be the first in the queue.
local member = ARGV[1] .. ':' .. ARGV[2]
local found, free = leave(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
local left = redis.call('ZREM', KEYS[3], member)
redis.call('ZREM', KEYS[4], member)
if free or (left == 1 and redis.call('EXISTS', KEYS[1]) == 0) then
  local first = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
  if first then redis.call('PUBLISH', KEYS[1], first) end
end
return found and 1 or 0
