-- Compares a login code and consumes it on a match.
--
-- KEYS  1 code, 2 tries
-- ARGV  1 the entered code, 2 the number of tries per code
-- Returns 'TAKEN' (correct, now deleted), 'WRONG', or 'NONE' (expired, used, out of tries, not sent).
--
-- Atomic, because only one of two callers with the correct code may take it, and because a try is
-- counted before the comparison: concurrent guesses must not all see an uncounted code.
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
