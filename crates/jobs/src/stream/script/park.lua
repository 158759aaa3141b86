-- Moves a pending entry to the dead letters.
--
-- KEYS[1]  stream
-- KEYS[2]  dead letters
-- ARGV[1]  group
-- ARGV[2]  consumer
-- ARGV[3]  id
-- ARGV[4]  reason
-- ARGV[5]  attempts
-- ARGV[6]  how many dead letters are kept; -1 keeps all
-- ARGV[7]  name of the field that holds all fields if they are too many for a script
--
-- Returns  1 if the entry was parked, 0 if it is settled already or belongs to another consumer.
--
-- Atomic, so that the entry is always in exactly one of the two places, and so that a retry after a
-- lost reply does nothing, because the entry is no longer pending. The acknowledgement comes last,
-- so that an entry that cannot be parked stays pending.

local held = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1)
if #held == 0 or held[1][2] ~= ARGV[2] then
  return 0
end
local found = redis.call('XRANGE', KEYS[1], ARGV[3], ARGV[3])
local fields = {}
if #found > 0 then
  fields = found[1][2]
end
if #fields > 4000 then
  -- A call takes about 8,000 arguments. Each word is stored as its length, a colon and the word.
  local words = {}
  for index = 1, #fields do
    words[index] = #fields[index] .. ':' .. fields[index]
  end
  fields = {ARGV[7], table.concat(words)}
end
local add = {KEYS[2], '*', 'id', ARGV[3], 'group', ARGV[1], 'reason', ARGV[4], 'attempts', ARGV[5]}
for index = 1, #fields do
  add[#add + 1] = fields[index]
end
redis.call('XADD', unpack(add))
redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
if ARGV[6] ~= '-1' then
  redis.call('XTRIM', KEYS[2], 'MAXLEN', ARGV[6])
end
return 1
