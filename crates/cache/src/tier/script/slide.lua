-- Keeps an entry that is being read fresh for longer.
--
-- KEYS[1]  entry
-- ARGV[1]  version that the reader saw, 8 bytes
-- ARGV[2]  fresh for, in milliseconds from now
--
-- Returns  when it stops being fresh, or 0 when the entry has changed.
--
-- Atomic, because another value must not inherit the lifetime of this one.

local head = redis.call('GETRANGE', KEYS[1], 0, 71)
if #head < 72 or string.sub(head, 9, 16) ~= ARGV[1] or string.byte(head, 5) % 2 ~= 0 then
  return 0
end
-- #include time.lua
local stale_for = struct.unpack('>I8', head, 41) - struct.unpack('>I8', head, 33)
redis.call('SETRANGE', KEYS[1], 32, struct.pack('>I8I8', now + ARGV[2], now + ARGV[2] + stale_for))
redis.call('PEXPIRE', KEYS[1], ARGV[2] + stale_for)
return now + ARGV[2]
