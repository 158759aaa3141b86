-- Who loads: hands out the lease of one entry, or says why not.
--
-- KEYS[1]  entry
-- ARGV[1]  token of the lease that is asked for, 8 bytes
-- ARGV[2]  how long the lease lives, in milliseconds
-- ARGV[3]  shape that the caller can read, 4 bytes: see shape.rs
-- ARGV[4]  stamp of the tags' generations that the caller saw, 8 bytes
-- ARGV[5]  '' for a miss; for a refresh the version that is to be replaced, 8 bytes
-- ARGV[6]  tokens of earlier requests of the same caller whose replies were lost, 8 bytes each
--
-- Returns  {'value', entry}     there is a fresh value after all (for a miss)
--          {'granted'}          the lease is the caller's
--          {'busy', millis}     another one holds it for that long; the caller will be woken
--          {'changed'}          somebody has refreshed it already (for a refresh)
--          {'newer'}            there is a value of a newer release, which stays
--
-- Atomic, because between looking and taking another caller could take it too. A caller whose reply
-- was lost asks again with a new token and names the old one, whose lease it takes over. It must not
-- ask with the old one: the first request may still be under way, and would bring the lease back to
-- life after an invalidation killed it.

local none = string.rep('\0', 8)
-- #include time.lua
local lease_until = struct.pack('>I8', now + ARGV[2])
local entry = redis.call('GET', KEYS[1])

if not entry or #entry < 72 or string.sub(entry, 1, 2) ~= '\197\1' then
  if ARGV[5] ~= '' then
    return {'changed'}
  end
  local header = '\197\1\0\0\0\0\0\0' .. none .. ARGV[1] .. lease_until .. string.rep('\0', 40)
  redis.call('SET', KEYS[1], header, 'PX', ARGV[2])
  return {'granted'}
end

local kind, _, flags = string.byte(entry, 3, 5)
if kind == 1 then
  -- A mark of 6 bits, the schema in 12 bits, the fields in 14 bits.
  local theirs = math.floor(struct.unpack('>I4', entry, 53) / 16384)
  if math.floor(theirs / 4096) == 45 and theirs > math.floor(struct.unpack('>I4', ARGV[3]) / 16384) then
    return {'newer'}
  end
end
local lease = string.sub(entry, 17, 24)
for at = 1, #ARGV[6], 8 do
  if lease == string.sub(ARGV[6], at, at + 7) then
    redis.call('SETRANGE', KEYS[1], 16, ARGV[1] .. lease_until)
    if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
      redis.call('PEXPIRE', KEYS[1], ARGV[2])
    end
    return {'granted'}
  end
end
if ARGV[5] == '' then
  local readable = string.sub(entry, 53, 56) == ARGV[3] and string.sub(entry, 57, 64) == ARGV[4]
  if kind ~= 0 and flags % 2 == 0 and readable and struct.unpack('>I8', entry, 33) > now then
    return {'value', entry}
  end
elseif string.sub(entry, 9, 16) ~= ARGV[5] then
  return {'changed'}
end
if lease ~= none then
  local left = struct.unpack('>I8', entry, 25) - now
  if left > 0 then
    if flags < 2 then
      redis.call('SETRANGE', KEYS[1], 4, string.char(flags + 2))
    end
    return {'busy', left}
  end
end
redis.call('SETRANGE', KEYS[1], 16, ARGV[1] .. lease_until)
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {'granted'}
