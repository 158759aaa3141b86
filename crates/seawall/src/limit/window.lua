-- Admits `cost` if the last window has room for it, and counts it.
--
-- KEYS[1]  the counts: "NEWEST c0 c1 ...", where ci belongs to the slice NEWEST - i
-- ARGV[1]  slice    length of a slice in microseconds
-- ARGV[2]  kept     number of slices that count: those that a window can touch
-- ARGV[3]  limit    how much a window admits
-- ARGV[4]  cost     0 checks without counting
-- Returns  {1, remaining, microseconds until nothing counts}, or {0, microseconds until there is
--          room}
--
-- Atomic because summing up and adding must not be interleaved with another check: both could see
-- the last free unit. The time is the server's. The work is bounded by `kept`, a constant.

local slice = tonumber(ARGV[1])
local kept = tonumber(ARGV[2])
local limit = tonumber(ARGV[3])
local cost = tonumber(ARGV[4])

-- #include time.lua
local newest = math.floor(micros / slice)

local counts = {}
for age = 0, kept - 1 do counts[age] = 0 end

local held = redis.call('GET', KEYS[1])
if held then
  if not string.match(held, '^[%d ]+$') then
    return redis.error_reply('LIMITSTATE the key holds something else than a window')
  end
  local stored, age = nil, 0
  for number in string.gmatch(held, '%d+') do
    if not stored then
      stored = tonumber(number)
      -- A clock that is slightly behind counts on in the newest slice. A clock that is far behind
      -- (more than a window) finds everything in its own newest slice, so that no subject is
      -- refused forever.
      if stored > newest and stored - newest <= kept then newest = stored end
    else
      local at = math.max(0, newest - stored) + age
      if stored > newest then at = 0 end
      if at < kept then counts[at] = counts[at] + tonumber(number) end
      age = age + 1
    end
  end
end

local sum = 0
for age = 0, kept - 1 do sum = sum + counts[age] end

if sum + cost > limit then
  local missing = sum + cost - limit
  local age = kept
  while missing > 0 and age > 0 do
    age = age - 1
    missing = missing - counts[age]
  end
  return {0, (newest - age + kept) * slice - micros}
end

counts[0] = counts[0] + cost
local first, last = nil, nil
for age = 0, kept - 1 do
  if counts[age] > 0 then
    first = first or age
    last = age
  end
end
local empty_in = 0
if first then empty_in = (newest - first + kept) * slice - micros end
if cost > 0 then
  local parts = {string.format('%.0f', newest)}
  for age = 0, last do parts[#parts + 1] = string.format('%.0f', counts[age]) end
  redis.call('SET', KEYS[1], table.concat(parts, ' '), 'PX', math.ceil(empty_in / 1000) + 1)
end
return {1, limit - sum - cost, empty_in}
