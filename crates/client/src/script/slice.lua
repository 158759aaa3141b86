-- Removes some members of a large hash or set.
--
-- KEYS[1]  key
-- ARGV[1]  'hash' or 'set'
-- ARGV[2]  maximum number of members to remove
--
-- Returns  the number of members removed.
--
-- Atomicity is not required; this is a script so that the members do not travel to the client.
-- Members are chosen at random, because repeated scans from the start would walk over hash-table
-- buckets that are already empty.

local pick = ARGV[1] == 'hash' and 'HRANDFIELD' or 'SRANDMEMBER'
local members = redis.call(pick, KEYS[1], ARGV[2])
if #members == 0 then
  return 0
end
return redis.call(ARGV[1] == 'hash' and 'HDEL' or 'SREM', KEYS[1], unpack(members))
