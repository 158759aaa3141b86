-- Prelude: whether keys are a lock's. Not a script of its own; needs token.lua.
--
-- Whoever takes something looks at all of its keys before it writes to the first. Otherwise a key that
-- is somebody else's would make a lock that never comes free, or one that is held by nobody.

-- An error when a fence's key holds no token, else nil.
local function no_token(fence)
  local last = redis.call('GET', fence)
  if last and #last ~= 16 then
    return redis.error_reply('WRONGTYPE ' .. fence .. ' holds no token')
  end
end

-- An error when this value of an owned key is no owner's, or would never end; else nil.
local function no_owner(key, value)
  if not string.find(value, '^%x+:[%x*]+$') or redis.call('PTTL', key) == -1 then
    return redis.error_reply('WRONGTYPE ' .. key .. ' holds no owner, or one without an end')
  end
end

-- An error when a sorted set of ends would never end itself, else nil.
local function no_ends(key)
  if redis.call('PTTL', key) == -1 then
    return redis.error_reply('WRONGTYPE ' .. key .. ' has no end')
  end
end
