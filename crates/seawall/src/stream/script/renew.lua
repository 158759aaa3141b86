-- Says of entries that their consumer is still at work on them.
--
-- KEYS[1]  stream
-- ARGV[1]  group
-- ARGV[2]  consumer
-- ARGV[3…] ids
--
-- Returns  the ids that are another consumer's by now, or settled.
--
-- Atomic, because between seeing whose an entry is and renewing it, it could become another's.

local lost = {}
for index = 3, #ARGV do
  local id = ARGV[index]
  local held = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)
  if #held > 0 and held[1][2] == ARGV[2] then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'JUSTID')
  else
    lost[#lost + 1] = id
  end
end
return lost
