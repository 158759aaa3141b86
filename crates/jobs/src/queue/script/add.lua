-- Adds items that become due later, unless an item with the same id exists.
--
-- KEYS[1]  waiting: sorted set of ids, scored by the millisecond at which they are due
-- KEYS[2]  leased: sorted set of ids, scored by the end of their lease
-- KEYS[3]  payloads, by id
-- KEYS[4]  recently finished: sorted set of ids, scored by the time they finished
-- ARGV[1]  channel on which consumers listen
-- ARGV[2]  milliseconds for which a finished id is remembered
-- ARGV[3…] triples: id, payload, milliseconds from now
--
-- Returns  for each item: 'added', or the state of the item with that id: 'waiting', 'leased',
--          'dead' or 'finished'
--
-- Atomic, so that only one of two callers with the same id adds the item; the second may also be
-- the same caller's retry after a lost reply. The time is the server's. Consumers are woken only by
-- an item that is due before all others. A finished id whose time has passed counts as unknown,
-- even if no acknowledgement has removed it yet.

-- #include time.lua
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
    -- The write that a full Redis refuses comes first: after another write in the script it would
    -- be accepted.
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
