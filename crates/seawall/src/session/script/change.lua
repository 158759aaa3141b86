-- Replaces the fields of a session.
--
-- KEYS  1 session
-- ARGV  fields and values
-- Returns 1, or 0 if there is no session.
--
-- Atomic, because fields written to a session that has just ended would create one that never
-- expires.
local kept = redis.call('HMGET', KEYS[1], '~user', '~until', '~slide')
if not kept[1] then return 0 end
local left = redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], '~user', kept[1], '~until', kept[2], '~slide', kept[3] or '0',
  unpack(ARGV))
redis.call('PEXPIRE', KEYS[1], left)
return 1
