-- Copies a moving slice into the bucket that it moves to, once.
--
-- KEYS[1]  gate of that bucket
-- KEYS[2]  that bucket
-- ARGV[1]  'hash', 'set' or 'zset'
-- ARGV[2]  number of the slice
-- ARGV[3…] member, value, member, value …
--
-- Returns  how many of them are in the bucket now; -1 if the slice had arrived before.
--
-- Atomic, because a slice that has arrived may be changed at once: a second copy of it, by a slow
-- process, would bring deleted members back.

redis.call('HSETNX', KEYS[1], 'state', 'open')
if redis.call('HGET', KEYS[1], 'state') == 'gone'
  or tonumber(redis.call('HGET', KEYS[1], 'done') or '0') >= tonumber(ARGV[2]) then
  return -1
end
local there = 0
for index = 3, #ARGV, 2 do
  local member, value = ARGV[index], ARGV[index + 1]
  if ARGV[1] == 'hash' then
    redis.call('HSET', KEYS[2], member, value)
    there = there + redis.call('HEXISTS', KEYS[2], member)
  elseif ARGV[1] == 'set' then
    redis.call('SADD', KEYS[2], member)
    there = there + redis.call('SISMEMBER', KEYS[2], member)
  else
    redis.call('ZADD', KEYS[2], value, member)
    there = there + (redis.call('ZSCORE', KEYS[2], member) and 1 or 0)
  end
end
redis.call('HSET', KEYS[1], 'done', ARGV[2])
return there
