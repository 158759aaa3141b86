-- Changes the lease of one hold. After token.lua, owned.lua and lease.lua.
--
-- KEYS  1 the key  2 its holds, or the key again  3 the permission to shorten this hold
-- ARGV  1 "owned" or "member"  2 owner  3 hold  4 lease in ms  5 the permission; empty to lengthen
-- Returns 1 if the lease was changed, 0 if the hold no longer exists, -1 if the permission is gone.
-- Atomic because of the permission: a shorter lease is set only while the permission that its
-- holder requested exists, and every later change of the lease deletes it. A request for a shorter
-- lease that arrives late therefore cannot undo a longer one that was confirmed.
local now = math.floor(micros() / 1000)
local permission = redis.call('GET', KEYS[3])
if ARGV[5] ~= '' and permission ~= ARGV[5] then return -1 end
if permission then redis.call('DEL', KEYS[3]) end
return set_lease(ARGV[1], KEYS[1], KEYS[2], ARGV[2], ARGV[3], tonumber(ARGV[4]), now, ARGV[5] ~= '')
