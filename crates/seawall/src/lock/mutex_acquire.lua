-- Takes a mutex. After token.lua and owned.lua.
--
-- KEYS  1 the lock  2 its holds  3 its fence
-- ARGV  1 owner  2 hold  3 lease in ms
-- Returns {1, epoch, sequence} when it is held now, {0, ms until it may be free} when it is not.
-- Atomic because the token must rise in the order in which holders follow each other. The same
-- owner and hold sent again, after a reply was lost, finds what it took the first time.
if redis.call('SET', KEYS[1], ARGV[1] .. ':' .. ARGV[2], 'NX', 'PX', ARGV[3]) then
  return {1, next_token(KEYS[3])}
end
local value = redis.call('GET', KEYS[1])
if enter_again(KEYS[1], KEYS[2], value, ARGV[1], ARGV[2], tonumber(ARGV[3])) then
  return {1, same_token(KEYS[3])}
end
return {0, redis.call('PTTL', KEYS[1])}
