-- Creates a session.
--
-- KEYS  1 session
-- ARGV  1 idle lifetime in ms, 2 when it ends at the latest, 3 after how many ms a read extends it,
--       4 user, 5… fields and values
-- Returns OK.
--
-- Atomic, because a session without a lifetime would never expire.
-- #include time.lua
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], '~user', ARGV[4], '~until', ARGV[2],
  '~slide', string.format('%.0f', now + ARGV[3]), unpack(ARGV, 5))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return redis.status_reply('OK')
