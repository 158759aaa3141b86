-- Ends a flash sale now, adds units to it, corrects its units, or reads it.
--
-- KEYS  1 sale
-- ARGV  1 CLOSE | TOP_UP | CORRECT | LOOK
--       TOP_UP:  2 reference, 3 units, 4 maximum units that a sale can have received
--       CORRECT: 2 units left, then received, left, taken and back as they were seen;
--                a confirmation moves no unit
-- Returns {word, received, left, taken, back, confirmed, begin, end, now}: DONE, ALREADY, MOVED
-- (the sale has changed since it was seen: nothing was corrected), TOO_MANY (nothing was added) or
-- UNKNOWN (then nothing follows).
--
-- Atomic, because a top-up is counted once however often it is repeated, a correction is valid only
-- for the numbers it was computed from, and the numbers of one read belong together.
if redis.call('HGET', KEYS[1], 'state') ~= 'open' then return {'UNKNOWN'} end
-- #include time.lua
local word = 'DONE'
if ARGV[1] == 'CLOSE' then
  if tonumber(redis.call('HGET', KEYS[1], 'end')) <= now then
    word = 'ALREADY'
  else
    redis.call('HSET', KEYS[1], 'end', string.format('%.0f', now))
  end
elseif ARGV[1] == 'TOP_UP' then
  if redis.call('HEXISTS', KEYS[1], 'top-up:' .. ARGV[2]) == 1 then
    word = 'ALREADY'
  elseif redis.call('HGET', KEYS[1], 'received') + ARGV[3] > tonumber(ARGV[4]) then
    -- Checked before it is recorded: a repetition must not be taken for a top-up that was counted.
    word = 'TOO_MANY'
  else
    redis.call('HSET', KEYS[1], 'top-up:' .. ARGV[2], ARGV[3])
    redis.call('HINCRBY', KEYS[1], 'received', ARGV[3])
    redis.call('HINCRBY', KEYS[1], 'left', ARGV[3])
  end
elseif ARGV[1] == 'CORRECT' then
  local is = redis.call('HMGET', KEYS[1], 'received', 'left', 'taken', 'back')
  for i = 1, 4 do
    if is[i] ~= ARGV[i + 2] then word = 'MOVED' end
  end
  if word == 'DONE' then
    redis.call('HINCRBY', KEYS[1], 'received', string.format('%.0f', ARGV[2] - is[2]))
    redis.call('HSET', KEYS[1], 'left', ARGV[2])
  end
end
local has = redis.call('HMGET', KEYS[1], 'received', 'left', 'taken', 'back', 'confirmed', 'begin',
  'end')
table.insert(has, 1, word)
table.insert(has, string.format('%.0f', now))
return has
