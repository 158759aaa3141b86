-- Creates an inventory's layout, or an empty shard, unless it exists.
--
-- KEYS  1 layout or shard
-- ARGV  1 LAYOUT | SHARD | MADE, 2 the layout
-- Returns {layout, 1 if its shards were created}, or the shard's epoch.
--
-- Atomic, because only one of two concurrent creators may decide where the shards lie. A shard is
-- created together with its layout and never again: a shard that is missing later was lost.
if ARGV[1] == 'SHARD' then
  -- #include time.lua
  if redis.call('HSETNX', KEYS[1], 'epoch', string.format('%.0f', time[1] * 1000)) == 1 then
    redis.call('HSET', KEYS[1], 'phase', 'open', 'received', 0, 'held', 0, 'sold', 0, 'left', 0)
  end
  return redis.call('HGET', KEYS[1], 'epoch')
end
redis.call('HSETNX', KEYS[1], 'salts', ARGV[2])
if ARGV[1] == 'MADE' then redis.call('HSET', KEYS[1], 'made', '1') end
return redis.call('HMGET', KEYS[1], 'salts', 'made')
