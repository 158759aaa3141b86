-- Stores what was loaded or written, if the lease is still the caller's.
--
-- KEYS[1]  entry
-- KEYS[2]  for a write on a single server: the counter of the namespace's messages
-- ARGV[1]  token of the lease, 8 bytes
-- ARGV[2]  kind and codec, 2 bytes
-- ARGV[3]  fresh for, in milliseconds
-- ARGV[4]  usable when stale for, in milliseconds after that
-- ARGV[5]  load cost in microseconds and shape, 8 bytes
-- ARGV[6]  stamp of the tags' generations as they were before loading, 8 bytes
-- ARGV[7]  value
-- ARGV[8]  channel on which those are woken who wait for this entry
-- ARGV[9]  for a write: channel of the namespace
-- ARGV[10] for a write: body of the message
--
-- Returns  {version, fresh until, stale until} and, if it replaced parts, their manifest; when the
--          lease was taken away or has ended {version} of what is there, or {} when nothing is: an invalidation
--          came between, and what was loaded may be older than it.
--
-- Atomic, because the check and the store must see the same lease, and because a message must not be
-- numbered before the value that it speaks of is there.

local none = string.rep('\0', 8)
local head = redis.call('GETRANGE', KEYS[1], 0, 71)
local ours = #head == 72 and string.sub(head, 1, 2) == '\197\1'
-- #include time.lua
local held = ours and string.sub(head, 17, 24) == ARGV[1] and struct.unpack('>I8', head, 25) > now
if not held then
  return ours and {(struct.unpack('>I8', head, 9))} or {}
end
local version = micros
local awaited = false
local source_version = none
local replaced
if ours then
  version = math.max(version, struct.unpack('>I8', head, 9) + 1)
  awaited = string.byte(head, 5) >= 2
  source_version = string.sub(head, 65, 72)
  if string.byte(head, 4) % 128 >= 64 then
    replaced = redis.call('GETRANGE', KEYS[1], 72, -1)
  end
end
local fresh_until = now + ARGV[3]
local stale_until = fresh_until + ARGV[4]
local entry = '\197\1' .. ARGV[2] .. '\0\0\0\0' .. struct.pack('>I8', version) .. none .. none
  .. struct.pack('>I8I8', fresh_until, stale_until) .. ARGV[5] .. ARGV[6] .. source_version .. ARGV[7]
redis.call('SET', KEYS[1], entry, 'PX', ARGV[3] + ARGV[4])
if awaited then
  redis.call('PUBLISH', ARGV[8], '')
end
if KEYS[2] then
  redis.call('SET', KEYS[2], version, 'NX')
  redis.call('PUBLISH', ARGV[9], string.format('%.0f', redis.call('INCR', KEYS[2])) .. ' ' .. ARGV[10])
end
return {version, fresh_until, stale_until, replaced}
