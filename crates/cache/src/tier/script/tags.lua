-- The clears of tags that values carry: what was the last one of each tag, or one more of them.
--
-- KEYS[1]  number of the last clear of any tag of the namespace
-- KEYS[2]  sorted set of the tags that were cleared, each with the number of its last clear; the score
--          of '' is the floor: a tag that is not there was not cleared since
-- ARGV[1]  'read', with the hashes of tags behind it, 8 bytes each; or 'clear'
-- ARGV[2]  for a clear: hash of the tag
-- ARGV[3]  for a clear: how many tags are remembered
--
-- Returns  {number of the last clear, floor, last clear of each tag or 0}; for a clear its number.
--
-- Numbers are taken from the server's time, so that one that was lost never comes back. If the set
-- was lost, entries from before the last clear no longer count; if the number was lost with it, no entry
-- from before does. If only the number was lost, the set still decides.
--
-- Atomic, because a number must not be seen before the tag that it stands for has it.

-- #include time.lua
local text = function(number) return string.format('%.0f', number) end
local last = tonumber(redis.call('GET', KEYS[1]) or '0')
if last == 0 then
  local highest = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
  last = math.max(micros, tonumber(highest[2] or '0') + 1)
  redis.call('SET', KEYS[1], text(last))
end
local floor = tonumber(redis.call('ZSCORE', KEYS[2], '') or '0')
if floor == 0 then
  floor = last
  redis.call('ZADD', KEYS[2], text(floor), '')
end
if ARGV[1] == 'read' then
  local answer = {last, floor}
  for index = 2, #ARGV do
    answer[index + 1] = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[index]) or '0')
  end
  return answer
end
local number = math.max(micros, last + 1)
redis.call('SET', KEYS[1], text(number))
redis.call('ZADD', KEYS[2], text(number), ARGV[2])
local most = tonumber(ARGV[3])
if redis.call('ZCARD', KEYS[2]) - 1 > most then
  -- The oldest hundredth goes at once. The floor is before all of them.
  local gone = math.floor(most / 100) + 1
  local raised = redis.call('ZRANGE', KEYS[2], gone, gone, 'WITHSCORES')[2]
  redis.call('ZREMRANGEBYRANK', KEYS[2], 1, gone)
  redis.call('ZADD', KEYS[2], raised, '')
end
return number
