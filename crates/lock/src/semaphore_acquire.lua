-- Acquires one of a number of permits. After token.lua and foreign.lua.
--
-- KEYS  1 permits: member by end  2 the fence
-- ARGV  1 owner  2 hold  3 lease in ms  4 number of permits
-- Returns {1, epoch, sequence} if it is held now, {0, ms until one may be free} otherwise.
-- Atomic because counting and acquiring must be one step.
local member, lease = ARGV[1] .. ':' .. ARGV[2], tonumber(ARGV[3])
local now = math.floor(micros() / 1000)
local foreign = no_token(KEYS[2]) or no_ends(KEYS[1])
if foreign then return foreign end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local mine = redis.call('ZSCORE', KEYS[1], member)
if not mine and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[4]) then
  local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  return {0, math.max(1, first[2] - now)}
end
-- A repeated attempt may arrive after its holder has extended the lease.
if not mine or tonumber(mine) < now + lease then redis.call('ZADD', KEYS[1], now + lease, member) end
if redis.call('PTTL', KEYS[1]) < lease then redis.call('PEXPIRE', KEYS[1], lease) end
-- Also for a repeated attempt: another holder may have the last token by now.
return {1, next_token(KEYS[2])}
