-- Says of entries that their consumer is still at work on them, and notes their attempts.
--
-- KEYS[1]  stream
-- ARGV[1]  group
-- ARGV[2]  consumer
-- ARGV[3…] pairs: id, and the counter (attempts.rs) that it gets, or 0 to keep it
--
-- Returns  the ids that are another consumer's by now, or settled.
--
-- Atomic, because between seeing whose an entry is and renewing it, it could become another's.

local lost = {}
for index = 3, #ARGV, 2 do
  local id = ARGV[index]
  local held = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)
  if #held > 0 and held[1][2] == ARGV[2] then
    if ARGV[index + 1] == '0' then
      redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'JUSTID')
    else
      redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'RETRYCOUNT', ARGV[index + 1], 'JUSTID')
    end
  else
    lost[#lost + 1] = id
  end
end
return lost
