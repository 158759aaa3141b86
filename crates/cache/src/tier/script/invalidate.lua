-- Makes sure that nobody reads what these entries hold now, nor what is being loaded for them now.
--
-- KEYS     entries, all in one slot or on one server; after them, on a single server, the counter of
--          the namespace's messages
-- ARGV[1]  how many of the keys are entries
-- ARGV[2]  'drop', or 'keep' to keep the value for readers who ask for a stale one
-- ARGV[3]  beginning of the channels on which those are woken who wait for an entry
-- ARGV[4]  channel of the namespace
-- ARGV[5]  body of the message
--
-- Returns  the version from which on readers see what came after; where values in parts were dropped
--          a list, with their manifests behind the version.
--
-- Atomic, because the lease must die together with the value, and because a message must not be
-- numbered before its entry is gone.

local none = string.rep('\0', 8)
-- #include time.lua
local version = micros
local count = tonumber(ARGV[1])
local answer = {0}
for index = 1, count do
  local head = redis.call('GETRANGE', KEYS[index], 0, 71)
  local awaited = false
  local dropped = true
  if #head == 72 and string.sub(head, 1, 2) == '\197\1' then
    local kind, _, flags = string.byte(head, 3, 5)
    awaited = flags >= 2
    local next_version = struct.unpack('>I8', head, 9) + 1
    version = math.max(version, next_version)
    if string.byte(head, 4) % 128 >= 64 and not (ARGV[2] == 'keep' and kind == 1) then
      answer[#answer + 1] = redis.call('GETRANGE', KEYS[index], 72, -1)
    end
    if ARGV[2] == 'keep' and kind == 1 then
      dropped = false
      redis.call('SETRANGE', KEYS[index], 4, '\1\0\0\0' .. struct.pack('>I8', version) .. string.rep('\0', 16))
    elseif string.sub(head, 65, 72) ~= none then
      -- Late events of a versioned source must still lose.
      dropped = false
      local header = '\197\1\0\0\0\0\0\0' .. struct.pack('>I8', version) .. string.rep('\0', 48) .. string.sub(head, 65, 72)
      redis.call('SET', KEYS[index], header, 'PX', 600000)
    end
  end
  if dropped then
    redis.call('UNLINK', KEYS[index])
  end
  if awaited then
    redis.call('PUBLISH', ARGV[3] .. KEYS[index], '')
  end
end
if #KEYS > count then
  local counter = KEYS[#KEYS]
  redis.call('SET', counter, version, 'NX')
  redis.call('PUBLISH', ARGV[4], string.format('%.0f', redis.call('INCR', counter)) .. ' ' .. ARGV[5])
end
answer[1] = version
return #answer > 1 and answer or version
