-- Gives a lease back without storing anything: the load failed, or its result is not to be kept.
--
-- KEYS[1]  entry
-- ARGV[1]  token of the lease, 8 bytes
-- ARGV[2]  channel on which those are woken who wait for this entry
-- ARGV[3]  '' or, when the source said "not modified", for how long the value is fresh again, in
--          milliseconds
-- ARGV[4]  '' or the version of the value that the source spoke of, 8 bytes
--
-- Returns  {version, fresh until, stale until} when the value is fresh again; else 1, or 0 when the
--          lease was no longer the caller's.
--
-- An empty entry that remembers a source's version stays: late events must still lose.
--
-- Atomic, because a lease that was taken away and handed to another must not be given back.

local head = redis.call('GETRANGE', KEYS[1], 0, 71)
if #head < 72 or string.sub(head, 17, 24) ~= ARGV[1] then
  return 0
end
local answer = 1
local kind, _, flags = string.byte(head, 3, 5)
if kind == 0 and string.sub(head, 65, 72) == string.rep('\0', 8) then
  redis.call('DEL', KEYS[1])
else
  redis.call('SETRANGE', KEYS[1], 16, string.rep('\0', 16))
  if flags >= 2 then
    redis.call('SETRANGE', KEYS[1], 4, string.char(flags - 2))
  end
  if ARGV[3] ~= '' and kind ~= 0 and flags % 2 == 0 and string.sub(head, 9, 16) == ARGV[4] then
    -- A new version, so that nobody refreshes what was just found to be right.
    -- #include time.lua
    local version = math.max(micros, struct.unpack('>I8', head, 9) + 1)
    local fresh_until = now + ARGV[3]
    local stale_for = struct.unpack('>I8', head, 41) - struct.unpack('>I8', head, 33)
    redis.call('SETRANGE', KEYS[1], 8, struct.pack('>I8', version))
    redis.call('SETRANGE', KEYS[1], 32, struct.pack('>I8I8', fresh_until, fresh_until + stale_for))
    redis.call('PEXPIRE', KEYS[1], ARGV[3] + stale_for)
    answer = {version, fresh_until, fresh_until + stale_for}
  end
end
if flags >= 2 then
  redis.call('PUBLISH', ARGV[2], '')
end
return answer
