-- Removes some members of a large hash or set.
--
-- KEYS[1]  key
-- ARGV[1]  'hash' or 'set'
-- ARGV[2]  how many members
--
-- Returns  how many were removed.
--
-- Atomic only by being a script: it is one so that members need not travel. The choice is random,
-- because a scan from the start again and again would walk over what is empty by now.

local pick = ARGV[1] == 'hash' and 'HRANDFIELD' or 'SRANDMEMBER'
local members = redis.call(pick, KEYS[1], ARGV[2])
if #members == 0 then
  return 0
end
return redis.call(ARGV[1] == 'hash' and 'HDEL' or 'SREM', KEYS[1], unpack(members))
