-- Restores a session that was lost.
--
-- KEYS  1 session, 2 bar
-- ARGV  1 idle lifetime in ms, 2 when it ends at the latest, in ms, 3 after how many ms a read
--       extends it, 4 longest lifetime from now in ms, 5 user, 6… fields and values
-- Returns 1 if the session exists, even if it was not lost; 0 if it is barred or past its end.
--
-- Atomic, because a session that is ended between the check of its bar and the write would live on,
-- and a session that exists has newer fields.
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
if redis.call('EXISTS', KEYS[1]) == 1 then return 1 end
-- #include time.lua
local last = math.min(tonumber(ARGV[2]), now + ARGV[4])
local left = math.min(tonumber(ARGV[1]), last - now)
if left <= 0 then return 0 end
local slide = now + left < last and now + ARGV[3] or last
redis.call('HSET', KEYS[1], '~user', ARGV[5], '~until', string.format('%.0f', last),
  '~slide', string.format('%.0f', slide), unpack(ARGV, 6))
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', left))
return 1
