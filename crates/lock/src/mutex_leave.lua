-- The rest of mutex_release.lua: the owner may have entered more than once. After leave.lua.
local found, free = leave(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
if free then redis.call('PUBLISH', KEYS[1], '') end
return found and 1 or 0
