-- Takes a run of ids, at or after the current time, that no other caller gets.
--
-- KEYS[1]  the mark: "SECOND SEQUENCE", the first id that is still free
-- KEYS[2]  number of ids taken on this day
-- ARGV[1]  epoch     Unix second that the ids count from
-- ARGV[2]  count     number of ids
-- ARGV[3]  second    \ the first id after everything that the caller ever got;
-- ARGV[4]  sequence  / 0 0 if it has none
-- ARGV[5]  lifetime of the mark, seconds
-- ARGV[6]  lifetime of the day's count, seconds
-- Returns  {second, sequence} of the first id; the others follow in the same second
--
-- Atomic because two callers that read the same mark would take the same ids. The mark is never
-- behind the server's time (the sequence begins at the fraction of the second). So losing it
-- repeats no id: all ids taken before are behind the current time.

local SEQUENCES = 4294967296

local epoch = tonumber(ARGV[1])
local count = tonumber(ARGV[2])

-- #include time.lua
local second = time[1] - epoch
local sequence = math.floor(time[2] * (SEQUENCES / 1000000))

local function not_before(other_second, other_sequence)
  if other_second > second or (other_second == second and other_sequence > sequence) then
    second, sequence = other_second, other_sequence
  end
end

local held = redis.call('GET', KEYS[1])
if held then
  local held_second, held_sequence = string.match(held, '^(%d+) (%d+)$')
  if not held_second then
    return redis.error_reply('IDSTATE the key holds something else than a mark')
  end
  not_before(tonumber(held_second), tonumber(held_sequence))
end
-- Ids that the caller has and this server does not know of, because writes were lost. No margin is
-- added: the clock cannot protect ids that are ahead of it.
not_before(tonumber(ARGV[3]), tonumber(ARGV[4]))

if sequence + count > SEQUENCES then
  second, sequence = second + 1, 0
end
if second < 0 or second > 2147483647 then
  return redis.error_reply('IDTIME the server\'s clock is outside the 68 years of the ids')
end

redis.call('SET', KEYS[1], string.format('%.0f %.0f', second, sequence + count), 'EX', ARGV[5])
redis.call('INCRBY', KEYS[2], ARGV[2])
redis.call('EXPIRE', KEYS[2], ARGV[6])
return {second, sequence}
