-- Prelude: fencing tokens for every script that grants a lock. Not a script by itself.
--
-- A token is an epoch and a sequence, stored in the fence key as two big-endian numbers of 8 bytes.
-- The epoch is the server's clock in microseconds, and at least one more than the previous epoch:
-- it rises as long as the key lives, whatever the clock does, and it rises after the key is lost as
-- long as the clock did not go back. The sequence counts acquisitions. The key may expire a day
-- after the last acquisition.
local FENCE_MEMORY_MS = 86400000

local function micros()
  -- #include time.lua
  return micros
end

local function last_token(fence)
  local last = redis.call('GET', fence)
  if not last then return nil end
  return struct.unpack('>I8I8', last)
end

local function next_token(fence)
  local epoch, sequence = micros(), 1
  local last, count = last_token(fence)
  if last then
    if last >= epoch then epoch = last + 1 end
    sequence = count + 1
  end
  redis.call('SET', fence, struct.pack('>I8I8', epoch, sequence), 'PX', FENCE_MEMORY_MS)
  return epoch, sequence
end

local function same_token(fence)
  local epoch, sequence = last_token(fence)
  if epoch then return epoch, sequence end
  return next_token(fence)
end
