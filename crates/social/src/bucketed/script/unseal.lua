-- Removes a slice that has arrived from its old bucket.
--
-- KEYS[1]  gate
-- KEYS[2]  bucket
-- KEYS[3]  members that are moving
-- ARGV[1]  'hash', 'set' or 'zset'
-- ARGV[2]  number of the slice
--
-- Returns  how many members left; 0 if another process has done it before.
--
-- Atomic, because a member must be here or be looked up in the next bucket, never both.

if redis.call('HGET', KEYS[1], 'slice') ~= ARGV[2] then
  return 0
end
local members = redis.call('SMEMBERS', KEYS[3])
if #members == 0 then
  return 0
end
local command = ({hash = 'HDEL', set = 'SREM', zset = 'ZREM'})[ARGV[1]]
local left = redis.call(command, KEYS[2], unpack(members))
redis.call('DEL', KEYS[3])
return left
