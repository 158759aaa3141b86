-- Begins a generation.
--
-- KEYS  1 control
-- ARGV  1 token, 2 lease in ms, 3 shape, 4 'create' (only if there is none) or 'rebuild'
-- Returns {0, ms} while another build is in progress, {2} if there is a filter and it should be
--   created, else {1, number of the generation}; then the previous contents of the hash as fields
--   and values.
--
-- Atomic, because only one of two concurrent builds may win, and its number must be unique.
-- #include time.lua
if ARGV[4] == 'create' and redis.call('HEXISTS', KEYS[1], 'current') == 1 then return {2, 0, {}} end
local till = redis.call('HGET', KEYS[1], 'until')
if till and tonumber(till) > now then return {0, tonumber(till) - now, {}} end
local before = redis.call('HGETALL', KEYS[1])
local stale = redis.call('HGET', KEYS[1], 'next')
if stale then redis.call('HDEL', KEYS[1], 's:' .. stale) end
-- A number that was never used, even if this hash was lost and processes remember the previous one.
local number = math.max(now, (tonumber(redis.call('HGET', KEYS[1], 'last') or 0)) + 1)
number = string.format('%.0f', number)
redis.call('HSET', KEYS[1], 'last', number, 'next', number, 's:' .. number, ARGV[3], 'token', ARGV[1],
  'until', string.format('%.0f', now + ARGV[2]))
return {1, tonumber(number), before}
