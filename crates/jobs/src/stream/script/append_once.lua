-- Appends an entry unless one with this reference was appended recently.
--
-- KEYS[1]  stream
-- KEYS[2]  deduplication key of the reference: holds the entry's id
-- ARGV[1]  reference
-- ARGV[2]  milliseconds for which the reference is remembered
-- ARGV[3]  name of the reference's field
-- ARGV[4…] fields and values
--
-- Returns  {id, 1} if the entry was appended, {id, 0} if it had been before.
--
-- Atomic, so that only one of two callers with the same reference appends the entry; the second may
-- also be the same caller's retry after a lost reply.

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
