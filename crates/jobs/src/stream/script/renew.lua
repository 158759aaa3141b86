-- Renews entries that their consumer is still working on, and records their attempts.
--
-- KEYS[1]  stream
-- ARGV[1]  group
-- ARGV[2]  consumer
-- ARGV[3…] pairs: id, and its new counter (attempts.rs), or 0 to keep the counter
--
-- Returns  the ids that now belong to another consumer, or are settled.
--
-- Atomic, because another consumer could get the entry between the check of its owner and the
-- renewal.

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
