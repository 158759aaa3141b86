-- Acquires a read-write lock for reading. After token.lua and foreign.lua.
--
-- KEYS  1 the writer  2 its fence  3 readers: member by end  4 waiting writers: member by end
-- ARGV  1 owner  2 hold  3 lease in ms
-- Returns {1, epoch, sequence} if it is held now, {0, ms until it may be free} otherwise.
-- Atomic because no writer may enter between the check for one and becoming a reader.
local member, lease = ARGV[1] .. ':' .. ARGV[2], tonumber(ARGV[3])
local now = math.floor(micros() / 1000)
local value = redis.call('GET', KEYS[1])
local foreign = no_token(KEYS[2]) or no_ends(KEYS[3]) or (value and no_owner(KEYS[1], value))
if foreign then return foreign end
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
local mine = redis.call('ZSCORE', KEYS[3], member)
if not mine then
  if value then return {0, redis.call('PTTL', KEYS[1])} end
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
  local waiting = redis.call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES')
  if waiting[2] then return {0, math.max(1, waiting[2] - now)} end
end
-- A repeated attempt may arrive after its holder has extended the lease.
if not mine or tonumber(mine) < now + lease then redis.call('ZADD', KEYS[3], now + lease, member) end
if redis.call('PTTL', KEYS[3]) < lease then redis.call('PEXPIRE', KEYS[3], lease) end
-- Also for a repeated attempt: another reader may have the last token by now.
return {1, next_token(KEYS[2])}
