-- Reads a page of a leaderboard.
--
-- KEYS  1 board (zset entry -> score), 2 entries (hash member -> entry), 3 scores (zset)
-- ARGV  1 'page', 2 positions to skip, 3 how many; or 1 'around', 2 member, 3 how many on each side
-- Returns positions skipped, number of members with better scores than the first entry's, number of
--   distinct better scores, and the entries with their scores.
--
-- Atomic, because ranks are counted from the first entry: a change in between would shift them.
local from, count
if ARGV[1] == 'page' then
  from, count = tonumber(ARGV[2]), tonumber(ARGV[3])
else
  local entry = redis.call('HGET', KEYS[2], ARGV[2])
  local place = entry and redis.call('ZREVRANK', KEYS[1], entry)
  if not place then return {0, 0, 0, {}} end
  from = math.max(0, place - ARGV[3])
  count = place + ARGV[3] - from + 1
end
local found = redis.call('ZREVRANGE', KEYS[1], string.format('%.0f', from),
  string.format('%.0f', from + count - 1), 'WITHSCORES')
if #found == 0 then return {from, 0, 0, {}} end
local first = '(' .. found[2]
local entries = {}
for at = 1, #found, 2 do
  entries[#entries + 1] = {found[at], string.format('%.0f', tonumber(found[at + 1]))}
end
return {from, redis.call('ZCOUNT', KEYS[1], first, '+inf'), redis.call('ZCOUNT', KEYS[3], first, '+inf'), entries}
