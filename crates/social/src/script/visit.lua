-- Counts views by visitors.
--
-- KEYS  1 visitors of the day (HyperLogLog), 2 views of the day (counter)
-- ARGV  1 lifetime in ms (0: forever), 2… visitors
-- Returns 1.
--
-- Atomic, because a view without its visitor, or a day without its lifetime, would never be
-- repaired.
redis.call('PFADD', KEYS[1], unpack(ARGV, 2))
redis.call('INCRBY', KEYS[2], #ARGV - 1)
if tonumber(ARGV[1]) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  redis.call('PEXPIRE', KEYS[2], ARGV[1])
end
return 1
