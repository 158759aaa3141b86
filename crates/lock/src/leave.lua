-- Prelude: gives up one hold of an owned key. Not a script by itself; needs owned.lua.
--
-- Returns whether the hold existed, and whether the key is free now.
local function leave(key, holds, owner, hold)
  local value = redis.call('GET', key)
  if value == owner .. ':' .. hold then
    redis.call('DEL', key)
    return true, true
  end
  if value ~= owner .. ':*' then return false, false end
  local found = redis.call('HDEL', holds, hold) == 1
  if keep_longest(key, holds, math.floor(micros() / 1000)) > 0 then return found, false end
  redis.call('DEL', key, holds)
  return found, true
end
