-- The steps of a build: extend the lease, flip to the new generation, or abandon it; and 'forget',
-- which removes the old generation after a flip.
--
-- KEYS  1 control
-- ARGV  1 token (or for 'forget' the generation), 2 'extend', 'flip', 'abandon' or 'forget', 3
--       lease in ms
-- Returns 1, or 0 if the token is not that of the current build.
--
-- Atomic, because a build that has lost its lease must not flip.
if ARGV[2] == 'forget' then
  if redis.call('HGET', KEYS[1], 'old') ~= ARGV[1] then return 0 end
  return redis.call('HDEL', KEYS[1], 'old', 's:' .. ARGV[1]) > 0 and 1 or 0
end
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
-- #include time.lua
if ARGV[2] == 'extend' then
  redis.call('HSET', KEYS[1], 'until', string.format('%.0f', now + ARGV[3]))
  return 1
end
local number = redis.call('HGET', KEYS[1], 'next')
redis.call('HDEL', KEYS[1], 'next', 'token', 'until')
if ARGV[2] == 'abandon' then
  redis.call('HDEL', KEYS[1], 's:' .. number)
  return 1
end
local current = redis.call('HGET', KEYS[1], 'current')
if current then redis.call('HSET', KEYS[1], 'old', current) end
redis.call('HSET', KEYS[1], 'current', number)
return 1
