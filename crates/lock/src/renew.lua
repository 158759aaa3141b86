-- Renews any number of holds. After token.lua, owned.lua and lease.lua.
--
-- KEYS  for each hold two: the key and its holds; for a member of a sorted set that set, twice
-- ARGV  for each hold four: "owned" or "member", owner, hold, lease in ms
-- Returns for each hold 1 if its end is at least a lease away, 0 if it no longer exists.
-- Atomic because a lease may only be extended for the hold that still has it. Never shortens: a
-- renewal that was sent before an extension may arrive after it.
local now = math.floor(micros() / 1000)
local renewed = {}
for i = 1, #KEYS / 2 do
  local shape, owner, hold = ARGV[4 * i - 3], ARGV[4 * i - 2], ARGV[4 * i - 1]
  local lease = tonumber(ARGV[4 * i])
  renewed[i] = set_lease(shape, KEYS[2 * i - 1], KEYS[2 * i], owner, hold, lease, now, false)
end
return renewed
