-- Acquires a fair lock, or a place in its queue. After token.lua, owned.lua and foreign.lua.
--
-- KEYS  1 the lock  2 its holds  3 its fence  4 queue: member by number  5 alive: member by end
-- ARGV  1 owner  2 hold  3 lease in ms  4 how long the place is kept, in ms; 0 to take none
-- Returns {1, epoch, sequence} if it is held now, {0, ms until the caller may be next} otherwise.
-- Atomic because the head of the queue and the state of the lock must be read together.

-- Maximum number of expired places removed in one call; the next call removes more.
local CLEARED_AT_ONCE = 100

local value = redis.call('GET', KEYS[1])
local foreign = no_token(KEYS[3]) or (value and no_owner(KEYS[1], value))
if foreign then return foreign end

local member = ARGV[1] .. ':' .. ARGV[2]
local lease, keep = tonumber(ARGV[3]), tonumber(ARGV[4])
local now = math.floor(micros() / 1000)
local dead = redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', now, 'LIMIT', 0, CLEARED_AT_ONCE)
for _, gone in ipairs(dead) do
  redis.call('ZREM', KEYS[4], gone)
  redis.call('ZREM', KEYS[5], gone)
end

if value and enter_again(KEYS[1], KEYS[2], value, ARGV[1], ARGV[2], lease) then
  return {1, same_token(KEYS[3])}
end
local first = redis.call('ZRANGE', KEYS[4], 0, 0)[1]
-- Both sets have the same members and lifetime; if one was evicted, the queue is reset.
if first and not redis.call('ZSCORE', KEYS[5], first) then
  redis.call('DEL', KEYS[4], KEYS[5])
  first = nil
end
if not value and (not first or first == member) then
  redis.call('ZREM', KEYS[4], member)
  redis.call('ZREM', KEYS[5], member)
  redis.call('SET', KEYS[1], member, 'PX', lease)
  return {1, next_token(KEYS[3])}
end
if keep > 0 then
  if not redis.call('ZSCORE', KEYS[4], member) then
    local last = redis.call('ZREVRANGE', KEYS[4], 0, 0, 'WITHSCORES')
    redis.call('ZADD', KEYS[4], (last[2] or 0) + 1, member)
  end
  redis.call('ZADD', KEYS[5], now + keep, member)
  -- Only extended: other waiters may poll less often, and their places are kept for longer.
  if redis.call('PTTL', KEYS[5]) < keep then
    redis.call('PEXPIRE', KEYS[4], keep)
    redis.call('PEXPIRE', KEYS[5], keep)
  end
end
if value then return {0, redis.call('PTTL', KEYS[1])} end
return {0, math.max(1, (redis.call('ZSCORE', KEYS[5], first) or now) - now)}
