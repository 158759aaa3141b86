-- Takes over entries that their consumer has not settled for long.
--
-- KEYS[1]  stream
-- ARGV[1]  group
-- ARGV[2]  consumer
-- ARGV[3]  idle milliseconds after which an entry counts as abandoned
-- ARGV[4]  cursor
-- ARGV[5]  how many
--
-- Returns  {next cursor, {{id, counter, fields or false if the entry was deleted}, …}}
--
-- Atomic, so that the counter (attempts.rs) is that of this delivery. XAUTOCLAIM counts deliveries,
-- which are not attempts: the script undoes that. An entry that was delivered for the first time
-- may have been begun (1 becomes 2). An entry whose last attempt has ended counts as begun from
-- here on (2k + 3 becomes 2k + 2), but is returned with its old counter.

local claimed = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], 'COUNT', ARGV[5])
local taken = {}
for _, entry in ipairs(claimed[2]) do
  -- Redis: 6.2 returns nil for an entry that was deleted.
  if entry then
    local held = redis.call('XPENDING', KEYS[1], ARGV[1], entry[1], entry[1], 1)
    local counter = 2
    if held[1] then
      local before = held[1][4] - 1
      counter = math.max(before, 2)
      local after = counter - counter % 2
      if after ~= held[1][4] then
        redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, entry[1], 'RETRYCOUNT', after, 'JUSTID')
      end
    end
    taken[#taken + 1] = {entry[1], counter, entry[2] or false}
  end
end
return {claimed[1], taken}
