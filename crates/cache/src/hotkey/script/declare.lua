-- Declares a key hot, or takes that back.
--
-- KEYS[1]  hot keys of the shard
-- ARGV[1]  channel
-- ARGV[2]  key
-- ARGV[3]  for how long from now, in milliseconds; 0 takes it back
-- ARGV[4]  how many keys of a shard may be hot
--
-- Returns  1; 0 when the shard is full, or when there was nothing to take back
--
-- Atomic, because counts that were reported meanwhile must not be lost, and everybody is told once.

-- #include time.lua
local line = redis.call('HGET', KEYS[1], ARGV[2])
local millis = tonumber(ARGV[3])
if millis == 0 then
  if not line or not string.find(line, ' declared ', 1, true) then
    return 0
  end
  redis.call('HDEL', KEYS[1], ARGV[2])
  redis.call('PUBLISH', ARGV[1], 'c ' .. ARGV[2])
  return 1
end
if not line and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[4]) then
  return 0
end
local since, ends, rest = string.match(line or '', '^(%d+) (%d+) (%d+ %d+ %d+ %d+) ')
local level_and_window = string.match(line or '', ' %a+ (%d+ %d+)$') or '1 1000'
if not since or tonumber(ends) <= now then
  since, rest = string.format('%.0f', now), '0 0 0 0'
end
line = string.format('%s %.0f %s declared %s', since, now + millis, rest, level_and_window)
redis.call('HSET', KEYS[1], ARGV[2], line)
if redis.call('PTTL', KEYS[1]) < millis + 60000 then
  redis.call('PEXPIRE', KEYS[1], millis + 60000)
end
redis.call('PUBLISH', ARGV[1], 'h ' .. string.format('%.0f', now) .. ' ' .. line .. ' ' .. ARGV[2])
return 1
