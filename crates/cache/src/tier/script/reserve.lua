-- Says that a value is about to be written: hands out the lease of one entry, whoever has it now.
--
-- KEYS[1]  entry
-- ARGV[1]  token of the lease, 8 bytes
-- ARGV[2]  how long the lease lives, in milliseconds
--
-- Returns  {version of what is there or 0, the server's time in microseconds}
--
-- What is there stays until the write itself, and whoever loads it at the moment loads for nothing.
--
-- Atomic, because taking the lease and looking at the version must see the same entry.

local none = string.rep('\0', 8)
-- #include time.lua
local lease = ARGV[1] .. struct.pack('>I8', now + ARGV[2])
local head = redis.call('GETRANGE', KEYS[1], 0, 71)
if #head < 72 or string.sub(head, 1, 2) ~= '\197\1' then
  local header = '\197\1\0\0\0\0\0\0' .. none .. lease .. string.rep('\0', 40)
  redis.call('SET', KEYS[1], header, 'PX', ARGV[2])
  return {0, micros}
end
redis.call('SETRANGE', KEYS[1], 16, lease)
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {(struct.unpack('>I8', head, 9)), micros}
