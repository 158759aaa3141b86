-- Takes the lease of a rebuild.
--
-- KEYS  1 collection, 2 marker ("count flag"), 3 lease
-- ARGV  1 token, 2 lease in ms, 3 'SCARD' or 'ZCARD'
-- Returns 1 if it is taken, 2 if the collection is complete, 0 if another process has it.
--
-- Atomic, because a process that found no collection may arrive after another one has built it: the
-- source would be read again for nothing.
local marker = redis.call('GET', KEYS[2])
if marker and tonumber(string.match(marker, '^%d+')) == redis.call(ARGV[3], KEYS[1]) then return 2 end
if redis.call('SET', KEYS[3], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return 0
