-- The rest of mutex_acquire.lua: the mutex is held, possibly by this owner. After owned.lua and
-- foreign.lua.
local value = redis.call('GET', KEYS[1])
local foreign = no_owner(KEYS[1], value)
if foreign then return foreign end
if enter_again(KEYS[1], KEYS[2], value, ARGV[1], ARGV[2], tonumber(ARGV[3])) then
  return {1, same_token(KEYS[3])}
end
return {0, redis.call('PTTL', KEYS[1])}
