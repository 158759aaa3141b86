-- The hot keys of one shard; those that have cooled are taken out and everybody is told.
--
-- KEYS[1]  hot keys of the shard
-- ARGV[1]  channel
--
-- Returns  {now in milliseconds, key, line, key, line, …}
--
-- Atomic, because a key that becomes hot again must not be taken out by whoever saw it cool.

-- #include time.lua
local answer = {now}
local all = redis.call('HGETALL', KEYS[1])
for at = 1, #all, 2 do
  local ends = string.match(all[at + 1], '^%d+ (%d+) ')
  if ends and tonumber(ends) > now then
    answer[#answer + 1] = all[at]
    answer[#answer + 1] = all[at + 1]
  else
    redis.call('HDEL', KEYS[1], all[at])
    redis.call('PUBLISH', ARGV[1], 'c ' .. all[at])
  end
end
return answer
