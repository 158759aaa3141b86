-- Reads or changes the buckets of a collection.
--
-- KEYS[1]  directory: `epoch` and `buckets`, and while it grows `next_epoch` and `next_buckets`;
--          `plain` is the key that the collection was before it had buckets
-- ARGV[1]  'read', 'create', 'grow' or 'flip'
-- ARGV[2]  for 'create' the key that it was, or ''; for 'grow' and 'flip' the epoch that the caller
--          knows
-- ARGV[3]  number of buckets; for 'flip' the next epoch
--
-- Returns  {epoch, buckets, next epoch, next buckets, plain} after the change, with '' for none.
--
-- Atomic, because two processes that grow it at the same time must use the same buckets. Epochs are
-- the server's time: an epoch is never used again, even after the collection was removed.

-- #include time.lua
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if ARGV[1] == 'create' and not epoch then
  redis.call('HSET', KEYS[1], 'epoch', string.format('%.0f', micros), 'buckets', ARGV[2] ~= '' and 1 or ARGV[3])
  if ARGV[2] ~= '' then
    redis.call('HSET', KEYS[1], 'plain', ARGV[2])
  end
elseif ARGV[1] == 'grow' and epoch == ARGV[2] and redis.call('HEXISTS', KEYS[1], 'next_epoch') == 0 then
  local next_epoch = string.format('%.0f', math.max(micros, epoch + 1))
  redis.call('HSET', KEYS[1], 'next_epoch', next_epoch, 'next_buckets', ARGV[3])
elseif ARGV[1] == 'flip' and epoch == ARGV[2] and redis.call('HGET', KEYS[1], 'next_epoch') == ARGV[3] then
  redis.call('HSET', KEYS[1], 'epoch', ARGV[3], 'buckets', redis.call('HGET', KEYS[1], 'next_buckets'))
  redis.call('HDEL', KEYS[1], 'next_epoch', 'next_buckets', 'plain')
end
local answer = redis.call('HMGET', KEYS[1], 'epoch', 'buckets', 'next_epoch', 'next_buckets', 'plain')
for index = 1, 5 do
  answer[index] = answer[index] or ''
end
return answer
