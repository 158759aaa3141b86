-- Appends dead letters to their stream again.
--
-- KEYS[1]  dead letters
-- KEYS[2]  stream
-- ARGV[1]  name of the reference's field
-- ARGV[2…] ids of dead letters
--
-- Returns  for each of them the id of the new entry, or false if there is no such dead letter.
--
-- Atomic, so that an entry is never in both places or in none, and a retry appends nothing. The new
-- entry keeps the old one's reference, by which handlers know what they have applied.

local appended = {}
for index = 2, #ARGV do
  local found = redis.call('XRANGE', KEYS[1], ARGV[index], ARGV[index])
  if #found == 0 then
    appended[index - 1] = false
  else
    local fields = found[1][2]
    -- id, group, reason, attempts, and then the fields that were appended.
    local entry, referred = {}, false
    for position = 9, #fields, 2 do
      referred = referred or fields[position] == ARGV[1]
      entry[#entry + 1] = fields[position]
      entry[#entry + 1] = fields[position + 1]
    end
    if not referred then
      table.insert(entry, 1, fields[2])
      table.insert(entry, 1, ARGV[1])
    end
    appended[index - 1] = redis.call('XADD', KEYS[2], '*', unpack(entry))
    redis.call('XDEL', KEYS[1], ARGV[index])
  end
end
return appended
