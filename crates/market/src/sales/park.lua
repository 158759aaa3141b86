-- Moves an entry that nobody could handle to the dead letters.
--
-- KEYS  1 stream, 2 dead letters, 3 queued orders
-- ARGV  1 group, 2 entry, 3 most dead letters kept, 4 why, 5 order, or nothing
-- Returns 1, or 0 when somebody else took it away before.
--
-- Atomic, because an entry must not be lost between the two streams, nor be in both.
local entry = redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2])[1]
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('XDEL', KEYS[1], ARGV[2])
if entry then
  local fields = entry[2]
  table.insert(fields, 'parked-id')
  table.insert(fields, ARGV[2])
  table.insert(fields, 'parked-why')
  table.insert(fields, ARGV[4])
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', unpack(fields))
end
if ARGV[5] ~= '' then redis.call('HDEL', KEYS[3], ARGV[5]) end
return 1
