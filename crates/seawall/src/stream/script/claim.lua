-- Takes over entries that their consumer has not settled for long.
--
-- KEYS[1]  stream
-- ARGV[1]  group
-- ARGV[2]  consumer
-- ARGV[3]  milliseconds after which an entry counts as left behind
-- ARGV[4]  cursor
-- ARGV[5]  how many
--
-- Returns  {next cursor, {{id, attempts, fields or false when the entry is gone}, …}}
--
-- Atomic, so that the attempts are those of this delivery.

local claimed = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], 'COUNT', ARGV[5])
local taken = {}
for _, entry in ipairs(claimed[2]) do
  -- Redis: 6.2 has nothing at all for an entry that is gone.
  if entry then
    local held = redis.call('XPENDING', KEYS[1], ARGV[1], entry[1], entry[1], 1)
    taken[#taken + 1] = {entry[1], held[1] and held[1][4] or 1, entry[2] or false}
  end
end
return {claimed[1], taken}
