-- Acquires a read-write lock for writing, or marks that a writer waits. After token.lua, owned.lua
-- and foreign.lua.
--
-- KEYS  1 the writer  2 its holds  3 its fence  4 readers: member by end  5 waiting: member by end
-- ARGV  1 owner  2 hold  3 lease in ms  4 for how long new readers stay out, in ms; 0 not at all
-- Returns {1, epoch, sequence} if it is held now, {0, ms until it may be free} otherwise.
-- Atomic because no reader may enter between the check for one and becoming the writer.
local member = ARGV[1] .. ':' .. ARGV[2]
local lease, keep = tonumber(ARGV[3]), tonumber(ARGV[4])
local now = math.floor(micros() / 1000)
local value = redis.call('GET', KEYS[1])
local foreign = no_token(KEYS[3]) or no_ends(KEYS[4]) or (value and no_owner(KEYS[1], value))
if foreign then return foreign end
if value and enter_again(KEYS[1], KEYS[2], value, ARGV[1], ARGV[2], lease) then
  return {1, same_token(KEYS[3])}
end
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
local reader = redis.call('ZREVRANGE', KEYS[4], 0, 0, 'WITHSCORES')
if not value and not reader[1] then
  redis.call('ZREM', KEYS[5], member)
  redis.call('SET', KEYS[1], member, 'PX', lease)
  return {1, next_token(KEYS[3])}
end
if keep > 0 then
  redis.call('ZADD', KEYS[5], now + keep, member)
  if redis.call('PTTL', KEYS[5]) < keep then redis.call('PEXPIRE', KEYS[5], keep) end
end
if value then return {0, redis.call('PTTL', KEYS[1])} end
return {0, math.max(1, reader[2] - now)}
