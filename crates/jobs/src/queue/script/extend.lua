-- Extends leases.
--
-- KEYS[1]  leased: sorted set of ids, scored by the end of their lease
-- KEYS[2]  tokens, by id
-- ARGV[1]  lease in milliseconds, from now on
-- ARGV[2…] pairs: id, token
--
-- Returns  for each item: 1 if its lease was extended, 0 if this token does not hold the lease
--
-- Atomic, because another consumer could get the item between the check of its lease and the
-- extension.

-- #include time.lua
local until_then = string.format('%.0f', now + tonumber(ARGV[1]))
local outcomes = {}
for index = 2, #ARGV, 2 do
  local id = ARGV[index]
  if redis.call('ZSCORE', KEYS[1], id) and redis.call('HGET', KEYS[2], id) == ARGV[index + 1] then
    redis.call('ZADD', KEYS[1], until_then, id)
    outcomes[#outcomes + 1] = 1
  else
    outcomes[#outcomes + 1] = 0
  end
end
return outcomes
