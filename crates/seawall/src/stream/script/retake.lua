-- Delivers entries to the consumer that has them pending once more.
--
-- KEYS[1]  stream
-- ARGV[1]  group
-- ARGV[2]  consumer
-- ARGV[3…] pairs: id, and 1 when this counts as another attempt
--
-- Returns  {{id, attempts, fields}, …} without those that are settled, gone or another consumer's.
--
-- Atomic, because between seeing whose an entry is and taking it, it could become another's.

local taken = {}
for index = 3, #ARGV, 2 do
  local id = ARGV[index]
  local held = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)
  if #held > 0 and held[1][2] == ARGV[2] then
    local attempts = held[1][4] + tonumber(ARGV[index + 1])
    local claimed = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'RETRYCOUNT', attempts)
    if claimed[1] then
      taken[#taken + 1] = {id, attempts, claimed[1][2]}
    else
      -- Redis: 7.0 forgets what is gone from the stream by itself, 6.2 does not.
      redis.call('XACK', KEYS[1], ARGV[1], id)
    end
  end
end
return taken
