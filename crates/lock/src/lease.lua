-- Prelude: moves the end of one hold. Not a script by itself; needs owned.lua.
--
-- Never creates anything: a hold that is gone stays gone. Without `exact` the end only moves later,
-- so a call that arrives late, or after a longer lease, changes nothing that a holder relies on.
-- Returns 1 if the hold exists, 0 if not.
local function set_lease(shape, key, holds, owner, hold, lease, now, exact)
  if shape == 'owned' then
    local value = redis.call('GET', key)
    if value == owner .. ':' .. hold then
      if exact or redis.call('PTTL', key) < lease then redis.call('PEXPIRE', key, lease) end
      return 1
    end
    if value ~= owner .. ':*' then return 0 end
    local ends = tonumber(redis.call('HGET', holds, hold) or 0)
    if ends <= now then return 0 end
    if exact or ends < now + lease then
      redis.call('HSET', holds, hold, now + lease)
      keep_longest(key, holds, now)
    end
    return 1
  end
  local member = owner .. ':' .. hold
  local ends = tonumber(redis.call('ZSCORE', key, member) or 0)
  if ends <= now then return 0 end
  if exact or ends < now + lease then
    redis.call('ZADD', key, now + lease, member)
    local last = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
    redis.call('PEXPIRE', key, math.max(1, last[2] - now))
  end
  return 1
end
