-- Ends the doubt about a user's bitmaps.
--
-- KEYS  1 marker
-- ARGV  1 the token of whoever copied the record, 2 what the marker says then, 3 for how long, in ms
-- Returns 1, or 0 when the doubt is another one by now.
--
-- Atomic, because a change of the record between the comparison and the writing would be believed to
-- have been copied.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
