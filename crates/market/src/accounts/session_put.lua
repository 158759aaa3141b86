-- Opens a session.
--
-- KEYS  1 session
-- ARGV  1 idle lifetime in ms, 2 longest lifetime in ms, 3 id, 4 nickName, 5 icon, 6 role
-- Returns 1.
--
-- Atomic, because a session without a lifetime would never end.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('HSET', KEYS[1], 'id', ARGV[3], 'nickName', ARGV[4], 'icon', ARGV[5], 'role', ARGV[6],
  'until', string.format('%.0f', now + ARGV[2]), 'slid', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
