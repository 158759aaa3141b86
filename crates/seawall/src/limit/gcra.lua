-- Admits `cost` if the meter of a rate has room for it, and charges it.
--
-- KEYS[1]  the meter: "TIME LEVEL", the level at that time
-- ARGV[1]  count    level that drains in one microsecond
-- ARGV[2]  period   level that one unit of cost adds
-- ARGV[3]  burst    units of cost that fit
-- ARGV[4]  cost     0 checks without charging
-- Returns  {1, remaining, microseconds until empty}, or {0, microseconds until there is room}
--
-- Atomic because reading the level and raising it must not be interleaved with another check: both
-- could see the last free unit. The time is the server's, so that callers with different clocks
-- share one meter. All numbers are whole and below 2^52: a Lua number is exact.

local count = tonumber(ARGV[1])
local period = tonumber(ARGV[2])
local capacity = tonumber(ARGV[3]) * period
local cost = tonumber(ARGV[4])

-- #include time.lua

local level = 0
local held = redis.call('GET', KEYS[1])
if held then
  local time, stored = string.match(held, '^(%d+) (%d+)$')
  if not time then
    return redis.error_reply('LIMITSTATE the key holds something else than a meter')
  end
  -- A server whose clock is behind its predecessor's drains nothing, and continues from its own
  -- time.
  local elapsed = math.max(0, micros - tonumber(time))
  level = math.max(0, tonumber(stored) - elapsed * count)
end

local wanted = level + cost * period
if wanted > capacity then
  return {0, math.ceil((wanted - capacity) / count)}
end
local empty_in = math.ceil(wanted / count)
if cost > 0 then
  local state = string.format('%.0f %.0f', micros, wanted)
  -- The key expires when the meter is empty: absent and empty are equivalent.
  redis.call('SET', KEYS[1], state, 'PX', math.ceil(empty_in / 1000) + 1)
end
return {1, math.floor((capacity - wanted) / period), empty_in}
