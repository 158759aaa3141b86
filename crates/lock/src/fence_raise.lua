-- Raises a fence to a token that another primary issued. After token.lua.
--
-- KEYS  1 the fence
-- ARGV  1 epoch  2 sequence
-- Returns the epoch that is stored now. Every later token here is greater.
-- Atomic because a token that is issued in between must not be lowered.
local epoch, sequence = tonumber(ARGV[1]), tonumber(ARGV[2])
local last, count = last_token(KEYS[1])
if last and last >= epoch then return last end
if count and count > sequence then sequence = count end
redis.call('SET', KEYS[1], struct.pack('>I8I8', epoch, sequence), 'PX', FENCE_MEMORY_MS)
return epoch
