-- Prelude: a key held by one owner, possibly with several holds. Not a script by itself.
--
-- The key's value is "owner:hold" for a single hold, which is nearly always the case, and "owner:*"
-- after the same owner entered again from elsewhere. The hash of holds then contains each hold's
-- end in the server's milliseconds, so that a hold whose process died does not live on with the
-- others.

-- Removes expired holds and sets the TTL of the key to that of the longest remaining hold.
local function keep_longest(key, holds, now)
  local entries = redis.call('HGETALL', holds)
  local longest = 0
  for i = 1, #entries, 2 do
    local left = tonumber(entries[i + 1]) - now
    if left <= 0 then
      redis.call('HDEL', holds, entries[i])
    elseif left > longest then
      longest = left
    end
  end
  if longest > 0 then
    redis.call('PEXPIRE', key, longest)
    redis.call('PEXPIRE', holds, longest)
  end
  return longest
end

-- Re-enters a held key. Returns true if it belongs to this owner, by this hold or another. For this
-- hold the end only moves later: a repeated attempt may arrive after its holder has extended the
-- lease.
local function enter_again(key, holds, value, owner, hold, lease)
  if value == owner .. ':' .. hold then
    if redis.call('PTTL', key) < lease then redis.call('PEXPIRE', key, lease) end
    return true
  end
  local other = string.match(value, '^' .. owner .. ':(.+)$')
  if not other then return false end
  local now = math.floor(micros() / 1000)
  if other ~= '*' then
    redis.call('DEL', holds)
    redis.call('HSET', holds, other, now + redis.call('PTTL', key))
    redis.call('SET', key, owner .. ':*', 'KEEPTTL')
  end
  if tonumber(redis.call('HGET', holds, hold) or 0) < now + lease then
    redis.call('HSET', holds, hold, now + lease)
  end
  keep_longest(key, holds, now)
  return true
end
