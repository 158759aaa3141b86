-- Ends the doubt about a user's bitmaps.
--
-- KEYS  1 marker
-- ARGV  1 token of the process that copied the record, 2 the new value of the marker, 3 its
--       lifetime in ms
-- Returns 1, or 0 if the marker has changed meanwhile.
--
-- Atomic, because a change of the record between the comparison and the write would be treated as
-- copied.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
