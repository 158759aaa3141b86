-- Removes sessions from their user's index.
--
-- KEYS  1 index
-- ARGV  digests and the scores with which they were read
-- Returns how many were removed.
--
-- Atomic, because a session that was being opened when the index was read may be open by now: then
-- its score has changed, and it stays.
local out = 0
for at = 1, #ARGV, 2 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[at])
  if score and tonumber(score) == tonumber(ARGV[at + 1]) then
    out = out + redis.call('ZREM', KEYS[1], ARGV[at])
  end
end
return out
