-- Takes an order out of the queue once the database has decided about it.
--
-- KEYS  1 stream, 2 queued orders, 3 sale, 4 buyers
-- ARGV  1 group, 2 entry, 3 order, 4 user, 5 verdict: KEPT, RETURNED (the unit goes back) or REFUSED
--       (there was none), 6 the order that the user has instead, or nothing
-- Returns 1, or 0 when somebody else settled it before.
--
-- Atomic, because the acknowledgement is what makes giving a unit back happen once.
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('XDEL', KEYS[1], ARGV[2])
redis.call('HDEL', KEYS[2], ARGV[3])
if ARGV[5] == 'KEPT' then return 1 end
if redis.call('HGET', KEYS[4], ARGV[4]) == ARGV[3] then
  if ARGV[6] == '' then
    redis.call('HDEL', KEYS[4], ARGV[4])
  else
    redis.call('HSET', KEYS[4], ARGV[4], ARGV[6])
  end
end
if ARGV[5] == 'RETURNED' and redis.call('EXISTS', KEYS[3]) == 1 then
  redis.call('HINCRBY', KEYS[3], 'stock', 1)
end
return 1
