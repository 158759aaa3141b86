-- Removes consumers that have nothing pending and have been silent for long.
--
-- KEYS[1]  stream
-- ARGV[1]  group
-- ARGV[2]  milliseconds of silence
-- ARGV[3]  a consumer to remove even if it was not silent, or nothing
--
-- Returns  how many were removed.
--
-- Atomic, because removing a consumer discards its pending entries: nothing may be delivered to it
-- between the check and the removal.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
local removed = 0
for _, info in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local consumer = {}
  for index = 1, #info, 2 do
    consumer[info[index]] = info[index + 1]
  end
  local silent = consumer['idle'] >= tonumber(ARGV[2]) or consumer['name'] == ARGV[3]
  if consumer['pending'] == 0 and silent then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer['name'])
    removed = removed + 1
  end
end
return removed
