-- Appends an entry unless one with this reference was appended lately.
--
-- KEYS[1]  stream
-- KEYS[2]  the reference's memory: the entry's id
-- ARGV[1]  reference
-- ARGV[2]  milliseconds for which the reference is remembered
-- ARGV[3]  name of the reference's field
-- ARGV[4…] fields and values
--
-- Returns  {id, 1} when it was appended, {id, 0} when it had been.
--
-- Atomic, so that of two callers with one reference, or a caller and its own repetition after a lost
-- reply, exactly one appends.

local known = redis.call('GET', KEYS[2])
if known then
  return {known, 0}
end
local entry = {}
for index = 4, #ARGV do
  entry[#entry + 1] = ARGV[index]
end
local id = redis.call('XADD', KEYS[1], '*', ARGV[3], ARGV[1], unpack(entry))
redis.call('SET', KEYS[2], id, 'PX', ARGV[2])
return {id, 1}
