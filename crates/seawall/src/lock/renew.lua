-- Renews any number of holds. After token.lua and owned.lua.
--
-- KEYS  for each hold two: the key and its holds; for a member of a sorted set that set, twice
-- ARGV  for each hold four: "owned" or "member", owner, hold, lease in ms
-- Returns for each hold 1 when it is renewed, 0 when it is not there any more.
-- Atomic because a lease may only be made longer for the hold that still has it. Nothing is ever
-- created here: what is gone stays gone.
local now = math.floor(micros() / 1000)
local renewed = {}
for i = 1, #KEYS / 2 do
  local key, holds = KEYS[2 * i - 1], KEYS[2 * i]
  local shape, owner, hold = ARGV[4 * i - 3], ARGV[4 * i - 2], ARGV[4 * i - 1]
  local lease = tonumber(ARGV[4 * i])
  local done = 0
  if shape == 'owned' then
    local value = redis.call('GET', key)
    if value == owner .. ':' .. hold then
      done = redis.call('PEXPIRE', key, lease)
    elseif value == owner .. ':*' and redis.call('HEXISTS', holds, hold) == 1 then
      if tonumber(redis.call('HGET', holds, hold)) > now then
        redis.call('HSET', holds, hold, now + lease)
        keep_longest(key, holds, now)
        done = 1
      end
    end
  else
    local member = owner .. ':' .. hold
    local ends = redis.call('ZSCORE', key, member)
    if ends and tonumber(ends) > now then
      redis.call('ZADD', key, now + lease, member)
      if redis.call('PTTL', key) < lease then redis.call('PEXPIRE', key, lease) end
      done = 1
    end
  end
  renewed[i] = done
end
return renewed
