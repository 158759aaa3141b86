-- Compares a login code and uses it up.
--
-- KEYS  1 code, 2 tries
-- ARGV  1 what was entered, 2 how many tries a code has
-- Returns 'TAKEN' (right, and now gone), 'WRONG', or 'NONE' (expired, used, burned, never sent).
--
-- Atomic, because of two callers with the right code only one may have it, and because a try is
-- counted before it is compared: guesses sent side by side must not all see an uncounted code.
local code = redis.call('GET', KEYS[1])
if not code then return 'NONE' end
local tries = redis.call('INCR', KEYS[2])
if tries == 1 then redis.call('PEXPIRE', KEYS[2], redis.call('PTTL', KEYS[1])) end
if code == ARGV[1] then
  redis.call('DEL', KEYS[1], KEYS[2])
  return 'TAKEN'
end
if tries >= tonumber(ARGV[2]) then redis.call('DEL', KEYS[1], KEYS[2]) end
return 'WRONG'
