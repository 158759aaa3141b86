-- Changes a member's score on a leaderboard.
--
-- KEYS  1 board (zset entry -> score), 2 entries (hash member -> entry), 3 scores (zset), 4
--       reference
-- ARGV  1 'set', 'best', 'add' or 'remove', 2 member, 3 score, 4 lifetime in ms (0: none), 5 how
--       many are kept (0: all), 6 for how long a reference is remembered, in ms
-- Returns the current score as a string, or nil if it would not be exact.
--
-- Atomic, because the member's old entry must be removed together with the addition of the new one,
-- and because an increment must be applied once per reference.
local MOST = 9007199254740991

local function text(number) return string.format('%.0f', number) end

local function drop(entry)
  local score = redis.call('ZSCORE', KEYS[1], entry)
  redis.call('ZREM', KEYS[1], entry)
  redis.call('HDEL', KEYS[2], string.sub(entry, 15))
  if score and redis.call('ZCOUNT', KEYS[1], score, score) == 0 then
    redis.call('ZREM', KEYS[3], text(tonumber(score)))
  end
end

-- Reads all keys before the first write: an increment that is recorded must also be applied.
redis.call('ZCARD', KEYS[1])
redis.call('ZCARD', KEYS[3])
local mode, member, score = ARGV[1], ARGV[2], tonumber(ARGV[3])
local old = redis.call('HGET', KEYS[2], member)
local standing = old and redis.call('ZSCORE', KEYS[1], old)
standing = standing and tonumber(standing)
if mode == 'remove' then
  if old then drop(old) end
  return '0'
end
if mode == 'add' then
  local known = redis.call('GET', KEYS[4])
  if known then return known end
  score = score + (standing or 0)
  if score > MOST or score < -MOST then return false end
  redis.call('SET', KEYS[4], text(score), 'PX', ARGV[6])
end
if standing and (standing == score or (mode == 'best' and standing > score)) then
  return text(standing)
end
-- #include time.lua
local left = MOST - micros
local entry = string.format('%06x%08x', math.floor(left / 4294967296), left % 4294967296) .. member
-- Adds the new entry first: keys that become empty in between would lose their lifetime.
redis.call('ZADD', KEYS[1], text(score), entry)
redis.call('ZADD', KEYS[3], text(score), text(score))
if old and old ~= entry then redis.call('ZREM', KEYS[1], old) end
if standing and redis.call('ZCOUNT', KEYS[1], text(standing), text(standing)) == 0 then
  redis.call('ZREM', KEYS[3], text(standing))
end
redis.call('HSET', KEYS[2], member, entry)
local keep = tonumber(ARGV[5])
if keep > 0 then
  -- Usually at most one more than allowed; a limit that was lowered is reached step by step.
  for _ = 1, math.min(redis.call('ZCARD', KEYS[1]) - keep, 100) do
    drop(redis.call('ZRANGE', KEYS[1], 0, 0)[1])
  end
end
if tonumber(ARGV[4]) > 0 and redis.call('PTTL', KEYS[1]) == -1 then
  -- One common expiry: each PEXPIRE would read the clock separately.
  local ends = text(now + ARGV[4])
  for key = 1, 3 do redis.call('PEXPIREAT', KEYS[key], ends) end
end
return text(score)
