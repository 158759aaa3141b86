-- Adds an item that becomes due later, unless there is one of its id.
--
-- KEYS[1]  waiting: sorted set of ids by the millisecond at which they are due
-- KEYS[2]  leased: sorted set of ids by the end of their lease
-- KEYS[3]  payloads, by id
-- KEYS[4]  finished lately: sorted set of ids by the time of their end
-- ARGV[1]  channel on which consumers listen
-- ARGV[2]  milliseconds for which a finished id is remembered
-- ARGV[3…] triples: id, payload, milliseconds from now
--
-- Returns  for each item: 'added', or where an item of that id is: 'waiting', 'leased', 'dead' or
--          'finished'
--
-- Atomic, so that of two callers with one id, or a caller and its own repetition after a lost reply,
-- one adds. The time is the server's. Consumers are woken only by an item that is due before all
-- others. A finished id that is remembered no longer counts as none, whether or not an acknowledgement
-- has tidied it up since.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local oldest = now - tonumber(ARGV[2])
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
local earliest = first[2] and tonumber(first[2])
local wake = false
local outcomes = {}
for index = 3, #ARGV, 3 do
  local id, due = ARGV[index], now + tonumber(ARGV[index + 2])
  local outcome
  local finished = redis.call('ZSCORE', KEYS[4], id)
  if redis.call('HEXISTS', KEYS[3], id) == 1 then
    if redis.call('ZSCORE', KEYS[1], id) then
      outcome = 'waiting'
    elseif redis.call('ZSCORE', KEYS[2], id) then
      outcome = 'leased'
    else
      outcome = 'dead'
    end
  elseif finished and tonumber(finished) >= oldest then
    outcome = 'finished'
  else
    -- First what a full Redis refuses: behind another write it would be taken.
    redis.call('HSET', KEYS[3], id, ARGV[index + 1])
    redis.call('ZREM', KEYS[4], id)
    redis.call('ZADD', KEYS[1], string.format('%.0f', due), id)
    if not earliest or due < earliest then
      earliest, wake = due, true
    end
    outcome = 'added'
  end
  outcomes[#outcomes + 1] = outcome
end
if wake then
  redis.call('PUBLISH', ARGV[1], 'due')
end
return outcomes
