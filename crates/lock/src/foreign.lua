-- Prelude: checks that keys belong to a lock. Not a script by itself; needs token.lua.
--
-- Every acquiring script checks all of its keys before it writes to the first. Otherwise a key that
-- another program wrote would make a lock that never becomes free, or one without a holder.

-- Returns an error if a fence's key holds no token, else nil.
local function no_token(fence)
  local last = redis.call('GET', fence)
  if last and #last ~= 16 then
    return redis.error_reply('WRONGTYPE ' .. fence .. ' holds no token')
  end
end

-- Returns an error if this value of an owned key is not an owner's or the key has no TTL, else nil.
local function no_owner(key, value)
  if not string.find(value, '^%x+:[%x*]+$') or redis.call('PTTL', key) == -1 then
    return redis.error_reply('WRONGTYPE ' .. key .. ' holds no owner, or one without an end')
  end
end

-- Returns an error if a sorted set of ends has no TTL itself, else nil.
local function no_ends(key)
  if redis.call('PTTL', key) == -1 then
    return redis.error_reply('WRONGTYPE ' .. key .. ' has no end')
  end
end
