-- Releases a read-write lock, or stops waiting for it. After token.lua, owned.lua and leave.lua.
--
-- KEYS  1 the writer  2 its holds  3 readers  4 waiting writers
-- ARGV  1 owner  2 hold
-- Returns 1 if the hold existed, 0 if not. Publishes when others may enter.
-- Atomic because the removal of a reader and the check that none is left must be one step.
local member = ARGV[1] .. ':' .. ARGV[2]
local found, free = leave(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
local read = redis.call('ZREM', KEYS[3], member) == 1
local gave_up = redis.call('ZREM', KEYS[4], member) == 1
if free or gave_up or (read and redis.call('EXISTS', KEYS[3]) == 0) then
  redis.call('PUBLISH', KEYS[1], '')
end
return (found or read) and 1 or 0
