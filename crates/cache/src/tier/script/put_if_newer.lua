-- Stores what a versioned source says about an entry, unless something newer was said before.
--
-- KEYS[1]  entry
-- KEYS[2]  on a single server: the counter of the namespace's messages
-- ARGV[1]  the source's version, 8 bytes
-- ARGV[2]  kind and codec, 2 bytes; kind 0 says that the source deleted it
-- ARGV[3]  fresh for, in milliseconds
-- ARGV[4]  usable when stale for, in milliseconds after that
-- ARGV[5]  load cost (0) and shape, 8 bytes
-- ARGV[6]  stamp of the tags' generations, 8 bytes
-- ARGV[7]  value
-- ARGV[8]  channel on which those are woken who wait for this entry
-- ARGV[9]  channel of the namespace
-- ARGV[10] body of the message
-- ARGV[11] length of what is behind the value and does not belong to it: see value_tags.rs
--
-- Returns  {'stored', version}   it is there now, and whatever was being loaded is refused; a third
--                                item is the manifest of the parts that were replaced
--          {'older'}             something newer is there
--          {'equal', version}    the same version with another value: nobody can tell which is
--                                later, so the entry is emptied and the next reader asks the source;
--                                a third item as above
--          {'same'}              the same version with the same value
--
-- Atomic, because comparing and storing must see the same version, and because a message must not be
-- numbered before the value that it speaks of is there. Versions are compared in halves:
-- Lua's numbers hold only 53 bits.

local none = string.rep('\0', 8)
local entry = redis.call('GET', KEYS[1])
local ours = entry and #entry >= 72 and string.sub(entry, 1, 2) == '\197\1'
-- #include time.lua
local version = micros
local awaited = false
local kind = string.sub(ARGV[2], 1, 1)
local outcome = 'stored'
local replaced
if ours then
  version = math.max(version, struct.unpack('>I8', entry, 9) + 1)
  awaited = string.byte(entry, 5) >= 2
  local old_high, old_low = struct.unpack('>I4I4', entry, 65)
  local new_high, new_low = struct.unpack('>I4I4', ARGV[1])
  if new_high < old_high or (new_high == old_high and new_low < old_low) then
    return {'older'}
  end
  if new_high == old_high and new_low == old_low then
    local last = -1 - ARGV[11]
    if string.byte(entry, 4) % 128 >= 64 and string.byte(ARGV[2], 2) % 128 >= 64 then
      last = 36 -- Manifests: all but the id, which is never the same.
    end
    if string.sub(entry, 3, 3) == kind and string.sub(string.sub(entry, 73), 1, last) == string.sub(ARGV[7], 1, last) then
      return {'same'}
    end
    outcome = 'equal'
  end
  if string.byte(entry, 4) % 128 >= 64 then
    replaced = string.sub(entry, 73)
  end
end
local head = struct.pack('>I8', version) .. none .. none
local keep = ARGV[3] + ARGV[4]
if outcome == 'equal' or kind == '\0' then
  redis.call('SET', KEYS[1], '\197\1\0\0\0\0\0\0' .. head .. string.rep('\0', 32) .. ARGV[1], 'PX', math.max(keep, 600000))
else
  local fresh_until = now + ARGV[3]
  redis.call('SET', KEYS[1], '\197\1' .. ARGV[2] .. '\0\0\0\0' .. head
    .. struct.pack('>I8I8', fresh_until, fresh_until + ARGV[4]) .. ARGV[5] .. ARGV[6] .. ARGV[1] .. ARGV[7], 'PX', keep)
end
if awaited then
  redis.call('PUBLISH', ARGV[8], '')
end
if KEYS[2] then
  redis.call('SET', KEYS[2], version, 'NX')
  redis.call('PUBLISH', ARGV[9], string.format('%.0f', redis.call('INCR', KEYS[2])) .. ' ' .. ARGV[10])
end
return {outcome, version, replaced}
