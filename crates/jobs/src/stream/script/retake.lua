-- Delivers pending entries again to the consumer that has them pending.
--
-- KEYS[1]  stream
-- ARGV[1]  group
-- ARGV[2]  consumer
-- ARGV[3…] pairs: id, and its new counter (attempts.rs); 0 keeps the recorded one; -1 too, for an
--          entry that an earlier run may have begun
--
-- Returns  {{id, counter, fields}, …} without those that are settled, deleted or another
--          consumer's.
--
-- Atomic, because another consumer could get the entry between the check of its owner and the
-- claim. A delivery is not an attempt, and does not count. An entry whose last attempt has ended
-- counts as begun from here on (2k + 3 becomes 2k + 2), but is returned with its old counter.

local taken = {}
for index = 3, #ARGV, 2 do
  local id, wanted = ARGV[index], tonumber(ARGV[index + 1])
  local held = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)
  if #held > 0 and held[1][2] == ARGV[2] then
    local counter = held[1][4]
    if wanted > 0 then
      counter = wanted
    elseif wanted < 0 then
      counter = math.max(counter, 2)
    end
    local after = counter
    if after >= 3 then
      after = after - after % 2
    end
    local claimed = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'RETRYCOUNT', after)
    if claimed[1] then
      taken[#taken + 1] = {id, counter, claimed[1][2]}
    else
      -- Redis: 7.0 removes a deleted entry from the pending list by itself, 6.2 does not.
      redis.call('XACK', KEYS[1], ARGV[1], id)
    end
  end
end
return taken
