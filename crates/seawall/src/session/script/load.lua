-- Reads a session and extends it if it is time to.
--
-- KEYS  1 session
-- ARGV  1 idle lifetime in ms, 2 after how many ms a read extends it again
-- Returns nil, or user, when it ends at the latest, 1 if it was extended (else 0), and the fields.
--
-- Atomic, because a session that expires between the read and the extension would be kept alive
-- without its fields.
local all = redis.call('HGETALL', KEYS[1])
if #all == 0 then return false end
local user, last
local slide = 0
local fields = {}
for at = 1, #all, 2 do
  if all[at] == '~user' then user = all[at + 1]
  elseif all[at] == '~until' then last = tonumber(all[at + 1])
  elseif all[at] == '~slide' then slide = tonumber(all[at + 1])
  else fields[#fields + 1] = {all[at], all[at + 1]} end
end
-- #include time.lua
if not user or not last or now >= last then
  redis.call('DEL', KEYS[1])
  return false
end
local slid = 0
if now >= slide then
  local left = math.min(tonumber(ARGV[1]), last - now)
  -- A session that reaches its latest end is not extended again.
  local again = now + left < last and now + ARGV[2] or last
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', left))
  redis.call('HSET', KEYS[1], '~slide', string.format('%.0f', again))
  slid = 1
end
return {user, last, slid, fields}
